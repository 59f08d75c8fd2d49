//! Tests of a server and its clients in one process. Each test has its own run directory.

#![allow(clippy::unwrap_used)]

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use slipring_control::{
    ControlClient, ControlError, ControlRefusal, ControlReply, ControlRequest, ControlServer,
    ControlService, RunningProgram, running,
};

/// A service that counts its requests. One request has a long answer.
#[derive(Default)]
struct CountingService(AtomicU64);

impl ControlService for CountingService {
    fn answer(&self, request: &ControlRequest) -> Result<ControlReply, ControlRefusal> {
        match request.what.as_str() {
            "echo" => Ok(ControlReply::Once(Value::Object(request.args.clone()))),
            "count" => Ok(ControlReply::Once(json!(self.0.fetch_add(1, Ordering::Relaxed)))),
            "much" => Ok(ControlReply::Once(json!("x".repeat(4 << 20)))),
            "watch" => Ok(ControlReply::Every("count", Duration::from_millis(1))),
            other => Err(ControlRefusal::malformed(format!("nobody knows `{other}`"))),
        }
    }
}

struct RunDir {
    dir: tempfile::TempDir,
}

impl RunDir {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("run")
    }

    fn serve(&self, name: Option<&str>) -> ControlServer {
        ControlServer::open(&self.path(), name, Box::new(CountingService::default())).unwrap()
    }

    fn socket(&self) -> PathBuf {
        self.path().join(format!("{}.sock", std::process::id()))
    }

    fn connect(&self) -> BufReader<UnixStream> {
        let stream = UnixStream::connect(self.socket()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
        BufReader::new(stream)
    }

    fn find(&self, name: Option<&str>) -> Result<ControlClient, ControlError> {
        ControlClient::find(&self.path(), name)
    }
}

fn answer(peer: &mut BufReader<UnixStream>, line: &[u8]) -> Value {
    peer.get_mut().write_all(line).unwrap();
    peer.get_mut().write_all(b"\n").unwrap();
    read(peer)
}

fn read(peer: &mut BufReader<UnixStream>) -> Value {
    let mut line = String::new();
    peer.read_line(&mut line).unwrap();
    serde_json::from_str(&line).unwrap()
}

#[test]
fn what_cannot_be_read_is_answered_and_the_connection_stays() {
    let site = RunDir::new();
    let _server = site.serve(None);
    let mut peer = site.connect();
    for (line, id, cause) in [
        (&b"{"[..], Value::Null, "it is not JSON"),
        (b"", Value::Null, "it is not JSON"),
        (b"\xff\xfe\x00", Value::Null, "it is not JSON"),
        (b"[1]", Value::Null, "it is no object"),
        (b"{\"id\":7}", json!(7), "`do` is missing"),
        (b"{\"id\":\"a\",\"do\":3}", json!("a"), "`do` is no text"),
        (b"{\"id\":8,\"do\":\"dance\"}", json!(8), "nobody knows `dance`"),
    ] {
        let reply = answer(&mut peer, line);
        assert_eq!(reply["id"], id, "{reply}");
        assert_eq!(reply["error"]["code"], "SR0014");
        assert!(reply["error"]["cause"].as_str().unwrap().starts_with(cause), "{reply}");
    }
    let reply = answer(&mut peer, b"{\"id\":9,\"do\":\"echo\",\"a\":1}");
    assert_eq!(reply, json!({ "id": 9, "ok": { "a": 1 } }));
}

#[test]
fn nesting_without_end_is_malformed_and_no_crash() {
    let site = RunDir::new();
    let _server = site.serve(None);
    let mut peer = site.connect();
    let reply = answer(&mut peer, &vec![b'['; 500_000]);
    assert_eq!(reply["error"]["code"], "SR0014");
    assert_eq!(answer(&mut peer, b"{\"id\":1,\"do\":\"count\"}")["ok"], 0);
}

#[test]
fn a_line_that_is_too_long_is_refused_once_and_the_connection_stays() {
    let site = RunDir::new();
    let _server = site.serve(None);
    let mut peer = site.connect();
    let reply = answer(&mut peer, &vec![b'x'; 3 << 20]);
    assert!(reply["error"]["cause"].as_str().unwrap().contains("longer than 1048576"), "{reply}");
    assert_eq!(answer(&mut peer, b"{\"id\":1,\"do\":\"count\"}")["ok"], 0);
}

#[test]
fn requests_sent_at_once_are_answered_in_turn() {
    let site = RunDir::new();
    let _server = site.serve(None);
    let mut peer = site.connect();
    let lines: String = (0..100).map(|id| format!("{{\"id\":{id},\"do\":\"count\"}}\n")).collect();
    peer.get_mut().write_all(lines.as_bytes()).unwrap();
    for id in 0..100 {
        assert_eq!(read(&mut peer), json!({ "id": id, "ok": id }));
    }
}

#[test]
fn many_clients_are_answered_at_the_same_time() {
    let site = RunDir::new();
    let _server = site.serve(None);
    let mut peers: Vec<_> = (0..100).map(|_| site.connect()).collect();
    let mut seen: Vec<_> = peers
        .iter_mut()
        .rev()
        .map(|peer| answer(peer, b"{\"id\":1,\"do\":\"count\"}")["ok"].as_u64().unwrap())
        .collect();
    seen.sort_unstable();
    assert_eq!(seen, (0..100).collect::<Vec<_>>());
}

#[test]
fn clients_that_do_not_read_delay_neither_others_nor_the_end() {
    let site = RunDir::new();
    let server = site.serve(None);
    let mut deaf: Vec<_> = (0..5).map(|_| site.connect()).collect();
    for peer in &mut deaf {
        // The answer is longer than the socket's buffer, so the thread that sends it waits until
        // the server ends.
        peer.get_mut()
            .write_all(b"{\"id\":1,\"do\":\"much\"}\n{\"id\":2,\"do\":\"watch\"}\n")
            .unwrap();
    }
    // Half a line is not a request yet.
    let mut slow = site.connect();
    slow.get_mut().write_all(b"{\"id\":1,").unwrap();
    assert_eq!(answer(&mut site.connect(), b"{\"id\":1,\"do\":\"count\"}")["ok"], 0);
    assert_eq!(answer(&mut slow, b"\"do\":\"count\"}")["ok"], 1);
    drop(server);
    assert!(!site.socket().exists());
}

#[test]
fn a_watch_goes_on_until_the_next_request() {
    let site = RunDir::new();
    let _server = site.serve(None);
    let mut peer = site.connect();
    assert_eq!(answer(&mut peer, b"{\"id\":1,\"do\":\"watch\"}"), json!({ "id": 1, "ok": 0 }));
    for count in 1..5 {
        assert_eq!(read(&mut peer)["ok"], count);
    }
    peer.get_mut().write_all(b"{\"id\":2,\"do\":\"echo\"}\n").unwrap();
    let mut next = read(&mut peer);
    while next["id"] == 1 {
        next = read(&mut peer);
    }
    assert_eq!(next, json!({ "id": 2, "ok": {} }));
    assert_eq!(answer(&mut peer, b"{\"id\":3,\"do\":\"echo\"}")["id"], 3, "nothing is watched");
}

#[test]
fn a_client_watches_until_it_has_enough_or_the_run_ends() {
    let site = RunDir::new();
    let server = site.serve(None);
    let mut seen = 0;
    let period = Duration::from_millis(1);
    site.find(None)
        .unwrap()
        .watch(period, |_| {
            seen += 1;
            seen < 4
        })
        .unwrap();
    assert_eq!(seen, 4);
    let mut server = Some(server);
    site.find(None)
        .unwrap()
        .watch(period, |_| {
            server = None;
            true
        })
        .unwrap();
}

#[test]
fn a_run_is_found_by_name_by_number_or_alone() {
    let site = RunDir::new();
    let server = site.serve(Some("lab"));
    let pid = std::process::id();
    for target in [None, Some("lab"), Some(&*pid.to_string())] {
        let mut client = site.find(target).unwrap();
        assert_eq!(client.request("echo", json!({ "b": 2 })).unwrap(), json!({ "b": 2 }));
    }
    assert_eq!(running(&site.path()), [RunningProgram { pid, names: vec!["lab".into()] }]);
    let refused = site.find(None).unwrap().request("dance", json!({}));
    assert!(matches!(refused, Err(ControlError::Refused(refusal)) if refusal.code == "SR0014"));
    drop(server);
    assert!(running(&site.path()).is_empty());
    assert_eq!(std::fs::read_dir(site.path()).unwrap().count(), 0, "nothing is left behind");
}

#[test]
fn errors_list_those_that_run() {
    let site = RunDir::new();
    assert!(matches!(site.find(None), Err(ControlError::NothingRuns { .. })));
    let _server = site.serve(Some("lab"));
    let _other = UnixListener::bind(site.path().join("1.sock")).unwrap();
    let several = site.find(None).unwrap_err().to_string();
    assert_eq!(several, format!("several run: 1, {} (lab)", std::process::id()));
    match site.find(Some("bal")) {
        Err(ControlError::Unknown { target, running }) => {
            assert_eq!((target.as_str(), running.len()), ("bal", 2));
        }
        other => panic!("{other:?}"),
    }
    assert!(matches!(site.find(Some("../lab")), Err(ControlError::BadName { .. })));
}

#[test]
fn sockets_of_the_dead_go_and_those_of_the_living_stay() {
    let site = RunDir::new();
    let dir = site.path();
    std::fs::create_dir(&dir).unwrap();
    drop(UnixListener::bind(dir.join("4000000.sock")).unwrap());
    symlink("4000000.sock", dir.join("lab.sock")).unwrap();
    drop(UnixListener::bind(site.socket()).unwrap());
    // This socket's program is alive, although it accepts no connection, so its socket must stay.
    let _stopped = UnixListener::bind(dir.join("1.sock")).unwrap();
    let other = dir.join("notes.txt");
    std::fs::write(&other, "").unwrap();
    let _server = site.serve(Some("lab"));
    assert!(!dir.join("4000000.sock").exists());
    assert!(dir.join("1.sock").exists() && other.exists());
    assert!(site.find(Some("lab")).unwrap().request("count", json!({})).is_ok());
}

#[test]
fn a_name_belongs_to_one_run() {
    let site = RunDir::new();
    let dir = site.path();
    std::fs::create_dir(&dir).unwrap();
    let _other = UnixListener::bind(dir.join("1.sock")).unwrap();
    symlink("1.sock", dir.join("lab.sock")).unwrap();
    let open =
        |name: &str| ControlServer::open(&dir, Some(name), Box::new(CountingService::default()));
    assert!(matches!(open("lab"), Err(ControlError::NameTaken { .. })));
    for name in ["42", "../x", ""] {
        assert!(matches!(open(name), Err(ControlError::BadName { .. })), "{name}");
    }
    assert!(open("lab2").is_ok());
}

fn mode(path: &Path) -> u32 {
    std::fs::symlink_metadata(path).unwrap().mode() & 0o777
}

#[test]
fn only_the_owner_reaches_the_socket() {
    let site = RunDir::new();
    let _server = site.serve(None);
    assert_eq!((mode(&site.path()), mode(&site.socket())), (0o700, 0o600));
}

#[test]
fn a_directory_where_others_may_write_is_not_trusted_by_either_side() {
    let site = RunDir::new();
    let dir = site.path();
    let server = site.serve(Some("lab"));
    assert!(site.find(Some("lab")).is_ok());
    for mode in [0o777, 0o1777, 0o770] {
        std::fs::set_permissions(&dir, std::fs::Permissions::from_mode(mode)).unwrap();
        let opened = ControlServer::open(&dir, None, Box::new(CountingService::default()));
        assert!(matches!(opened, Err(ControlError::Untrusted(_))));
        for target in [Some("lab"), None] {
            assert!(matches!(site.find(target), Err(ControlError::Untrusted(_))), "{target:?}");
        }
        assert!(running(&dir).is_empty());
    }
    std::fs::set_permissions(&dir, std::fs::Permissions::from_mode(0o700)).unwrap();
    drop(server);
}

#[test]
fn a_lock_on_the_directory_that_anybody_can_take_delays_no_start() {
    let site = RunDir::new();
    std::fs::create_dir(site.path()).unwrap();
    // A user who can read the directory can also lock it, so such a lock must not stop a server.
    let squatter = std::fs::File::open(site.path()).unwrap();
    squatter.lock().unwrap();
    drop(site.serve(Some("lab")));
    assert_eq!(std::fs::read_dir(site.path()).unwrap().count(), 0, "no lock is left");
}
