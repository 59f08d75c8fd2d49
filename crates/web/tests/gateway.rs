//! Tests of the gateway with runs that the tests simulate: which requests are answered, which are
//! refused, and how the gateway ends.

#![allow(clippy::unwrap_used)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use slipring_control::{
    ControlRefusal, ControlReply, ControlRequest, ControlServer, ControlService,
};
use slipring_web::{AccessToken, WebGateway, WebOptions};

const TOKEN: &str = "0123456789abcdef";

/// Answers in place of an emulator, and counts the requests `stats`.
#[derive(Default)]
struct CountingService(AtomicU64);

impl ControlService for CountingService {
    fn answer(&self, request: &ControlRequest) -> Result<ControlReply, ControlRefusal> {
        let refusal = |code: &str| ControlRefusal {
            code: code.to_owned(),
            summary: "it cannot be".to_owned(),
            cause: Some("because".to_owned()),
            help: Some("ask for less".to_owned()),
        };
        match request.what.as_str() {
            "set" => Ok(ControlReply::Once(json!({ "told": request.args }))),
            "stats" => {
                Ok(ControlReply::Once(json!({ "look": self.0.fetch_add(1, Ordering::Relaxed) })))
            }
            "watch" => Ok(ControlReply::Every("stats", Duration::from_millis(1))),
            "unfit" => Err(refusal("SR0011")),
            "held" => Err(refusal("SR0015")),
            "lost" => Err(refusal("SR0405")),
            other => Err(ControlRefusal::malformed(format!("there is no `{other}`"))),
        }
    }
}

/// A run and its gateway.
struct GatewayRun {
    gateway: WebGateway,
    run: Option<ControlServer>,
    _dir: tempfile::TempDir,
}

fn run_in(dir: &Path) -> ControlServer {
    ControlServer::open(&dir.join("run"), Some("lab"), Box::new(CountingService::default()))
        .unwrap()
}

impl GatewayRun {
    fn new() -> Self {
        Self::with(|_| {})
    }

    fn with(edit: impl FnOnce(&mut WebOptions)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let run = Some(run_in(dir.path()));
        let mut options = WebOptions::on("127.0.0.1:0".parse().unwrap(), &dir.path().join("run"));
        options.presets = json!([{ "name": "lte" }]);
        edit(&mut options);
        Self { gateway: WebGateway::open(options).unwrap(), run, _dir: dir }
    }

    fn address(&self) -> SocketAddr {
        self.gateway.address()
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
        stream
    }

    /// Sends raw bytes. Returns everything that comes until the end of the stream.
    fn raw(&self, request: &[u8]) -> String {
        let mut stream = self.connect();
        // The gateway may refuse the request before all of it was sent, so errors are ignored.
        let _ = stream.write_all(request);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    }

    fn request(&self, line: &str, headers: &str, body: &str) -> Answer {
        let length = body.len();
        let request = format!(
            "{line} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nContent-Length: {length}\r\n\
             {headers}\r\n{body}",
            self.address()
        );
        Answer::of(&self.raw(request.as_bytes()))
    }

    fn get(&self, path: &str) -> Answer {
        self.request(&format!("GET {path}"), "", "")
    }

    fn post(&self, path: &str, body: &str) -> Answer {
        self.request(&format!("POST {path}"), "Content-Type: application/json\r\n", body)
    }

    /// Sends the request `watch`. Returns the connection, from which the head of the response was
    /// already read.
    fn watch(&self, period: &str) -> BufReader<TcpStream> {
        let mut stream = self.connect();
        let path = format!("/api/v1/lab/watch?period={period}");
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut stream = BufReader::new(stream);
        let head: Vec<_> = lines(&mut stream).take_while(|line| !line.is_empty()).collect();
        assert!(head[0].ends_with("200 OK"), "{head:?}");
        assert!(head.iter().any(|line| line == "content-type: text/event-stream"), "{head:?}");
        stream
    }
}

fn lines(stream: &mut BufReader<TcpStream>) -> impl Iterator<Item = String> {
    std::iter::from_fn(move || {
        let mut line = String::new();
        stream.read_line(&mut line).ok().filter(|read| *read > 0)?;
        Some(line.trim_end().to_owned())
    })
}

#[derive(Debug)]
struct Answer {
    status: u16,
    head: String,
    body: String,
}

impl Answer {
    fn of(text: &str) -> Self {
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((text, ""));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        Self { status, head: head.to_lowercase(), body: body.to_owned() }
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("{self:?}"))
    }

    /// Asserts a refusal with all its parts; returns its cause.
    fn refused(&self, status: u16) -> String {
        assert_eq!(self.status, status, "{self:?}");
        let error = self.json();
        assert!(error["code"].as_str().unwrap().starts_with("SR"), "{error}");
        assert!(error["summary"].is_string() && error["help"].is_string(), "{error}");
        error["cause"].as_str().unwrap_or_default().to_owned()
    }
}

#[test]
fn a_request_reaches_the_run_and_its_answer_comes_back_as_it_is() {
    let site = GatewayRun::new();
    let changes = r#"{"changes":{"link.up.rate.bps":"20Mbit"},"at":"+2s"}"#;
    let pid = std::process::id().to_string();
    for target in ["lab", "-", &pid] {
        let answer = site.post(&format!("/api/v1/{target}/set"), changes);
        let told = json!({ "told": serde_json::from_str::<Value>(changes).unwrap() });
        assert_eq!((answer.status, answer.json()), (200, told), "{target}");
    }
    assert_eq!(site.request("POST /api/v1/lab/stats", "", "").json(), json!({ "look": 0 }));
}

#[test]
fn what_runs_and_the_presets_are_listed() {
    let mut site = GatewayRun::new();
    let lab = json!([{ "pid": std::process::id(), "names": ["lab"] }]);
    assert_eq!(site.get("/api/v1/running").json(), lab);
    assert_eq!(site.get("/api/v1/presets").json(), json!([{ "name": "lte" }]));
    site.run = None;
    assert_eq!(site.get("/api/v1/running").json(), json!([]));
}

#[test]
fn refusals_of_the_run_keep_their_words_and_get_a_status_that_fits() {
    let mut site = GatewayRun::new();
    for (what, status, code) in
        [("unfit", 422, "SR0011"), ("held", 409, "SR0015"), ("lost", 502, "SR0405")]
    {
        let answer = site.post(&format!("/api/v1/lab/{what}"), "");
        assert_eq!(answer.refused(status), "because");
        assert_eq!(answer.json()["code"], code);
    }
    let dance = site.post("/api/v1/lab/dance", "");
    assert!(dance.refused(400).contains("`dance`"));
    let help = dance.json()["help"].as_str().unwrap().to_owned();
    assert!(help.contains("POST /api/v1/") && !help.contains("per line"), "{help}");
    assert!(site.post("/api/v1/other/stats", "").refused(404).contains("(lab)"));
    assert!(site.post("/api/v1/..%2f..%2fx/stats", "").refused(404).contains("letters"));
    site.run = None;
    site.post("/api/v1/-/stats", "").refused(404);
}

#[test]
fn bodies_that_are_no_arguments_are_refused() {
    let site = GatewayRun::new();
    for body in ["[]", "7", "{", "nonsense", &"[".repeat(100_000)] {
        assert!(site.post("/api/v1/lab/set", body).refused(400).contains("JSON object"), "{body}");
    }
    for body in [r#"{"do":"quit"}"#, r#"{"id":[1]}"#] {
        assert!(site.post("/api/v1/lab/set", body).refused(400).contains("said by the path"));
    }
    let form = site.request("POST /api/v1/lab/set", "Content-Type: text/plain\r\n", "{}");
    assert!(form.refused(415).contains("says not that its body is JSON"));
    assert!(form.json()["help"].as_str().unwrap().contains("Content-Type: application/json"));
    let long = format!("{{\"text\":\"{}\"}}", "x".repeat(2 << 20));
    assert!(site.post("/api/v1/lab/script", &long).refused(413).contains("too long"));
}

#[test]
fn other_methods_and_paths_are_refused_by_name() {
    let site = GatewayRun::new();
    site.get("/api/v1/lab/set").refused(405);
    site.post("/api/v1/running", "").refused(405);
    site.post("/", "").refused(405);
    for path in ["/api", "/api/v1/lab", "/../../etc/passwd", "/main.js.map"] {
        site.get(path).refused(404);
    }
}

#[test]
fn every_answer_forbids_what_a_page_could_be_misled_to() {
    let site = GatewayRun::new();
    for answer in [site.get("/"), site.get("/api/v1/running"), site.get("/nothing")] {
        for header in [
            "content-security-policy: default-src 'none'; script-src 'self'",
            "frame-ancestors 'none'",
            "x-content-type-options: nosniff",
            "referrer-policy: no-referrer",
            "cache-control: no-store",
        ] {
            assert!(answer.head.contains(header), "{header} in {}", answer.head);
        }
    }
}

#[test]
fn pages_of_other_origins_and_other_names_are_refused() {
    let site = GatewayRun::new();
    let own = format!("Origin: http://{}\r\n", site.address());
    assert_eq!(site.request("POST /api/v1/lab/stats", &own, "").status, 200);
    for header in [
        "Origin: http://evil.example\r\n",
        "Origin: null\r\n",
        "Origin: http://127.0.0.1:1\r\n",
        "Sec-Fetch-Site: cross-site\r\n",
        "Sec-Fetch-Site: same-site\r\n",
    ] {
        let answer = site.request("POST /api/v1/lab/stats", header, "");
        assert!(answer.refused(403).contains("another origin"), "{header}");
    }
    for host in ["evil.example", "evil.example:80", "127.0.0.1.evil.example", ""] {
        let request =
            format!("POST /api/v1/lab/stats HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        assert!(Answer::of(&site.raw(request.as_bytes())).refused(403).contains("Host"), "{host}");
    }
    let two = b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil\r\nConnection: close\r\n\r\n";
    assert!(matches!(Answer::of(&site.raw(two)).status, 400 | 403));
    assert_eq!(site.post("/api/v1/lab/stats", "").json()["look"], 1, "no other got through");
}

#[test]
fn with_a_token_nothing_is_answered_without_it() {
    let site = GatewayRun::with(|options| options.token = Some(AccessToken::new(TOKEN).unwrap()));
    for path in ["/", "/main.js", "/api/v1/running"] {
        assert!(site.get(path).refused(401).contains("the token"));
        site.get(&format!("{path}?token=0123456789abcdeX")).refused(401);
    }
    let bearer = format!("Authorization: Bearer {TOKEN}\r\n");
    assert_eq!(site.request("GET /api/v1/running", &bearer, "").status, 200);
    let cookie = site.get(&format!("/?token={TOKEN}"));
    let name = format!("slipring-{}", site.address().port());
    let kept = format!("set-cookie: {name}={TOKEN}; path=/; httponly; samesite=strict");
    assert!(cookie.head.contains(&kept), "{}", cookie.head);
    let cookie = format!("Cookie: other=1; {name}={TOKEN}\r\n");
    let answer = site.request("POST /api/v1/lab/stats", &cookie, "");
    assert_eq!(answer.status, 200, "{answer:?}");
    assert!(!answer.head.contains("set-cookie"));
    let foreign = format!("{cookie}Origin: http://evil.example\r\n");
    site.request("POST /api/v1/lab/stats", &foreign, "").refused(403);
    site.request("GET /api/v1/running", &format!("Cookie: {name}=x\r\n"), "").refused(401);
}

#[test]
fn other_addresses_need_a_token() {
    let options = WebOptions::on("0.0.0.0:0".parse().unwrap(), Path::new("/nowhere"));
    let error = WebGateway::open(options).unwrap_err().to_text(false);
    assert!(error.starts_with("error[SR0006]: 0.0.0.0:0 needs a token\n"), "{error}");
    assert!(error.contains("--token-file FILE"), "{error}");
}

#[test]
fn an_address_that_is_taken_is_refused_by_name() {
    let site = GatewayRun::new();
    let error =
        WebGateway::open(WebOptions::on(site.address(), Path::new("/nowhere"))).unwrap_err();
    let error = error.to_text(false);
    assert!(error.contains(&format!("cannot listen on {}", site.address())), "{error}");
}

#[test]
fn a_gateway_to_one_run_leads_to_no_other() {
    let site = GatewayRun::with(|options| options.target = Some("lab".to_owned()));
    assert_eq!(site.post("/api/v1/lab/stats", "").status, 200);
    assert_eq!(site.post("/api/v1/-/stats", "").status, 200);
    let other = format!("/api/v1/{}/stats", std::process::id());
    assert!(site.post(&other, "").refused(404).contains("lab only"));
    let site = GatewayRun::with(|options| options.target = Some("other".to_owned()));
    assert_eq!(site.get("/api/v1/running").json(), json!([]));
}

#[test]
fn what_is_watched_comes_again_and_again_until_the_run_ends() {
    let mut site = GatewayRun::new();
    let mut stream = site.watch("20ms");
    let looks: Vec<u64> = lines(&mut stream)
        .filter_map(|line| {
            let value: Value = serde_json::from_str(line.strip_prefix("data: ")?).unwrap();
            value["look"].as_u64()
        })
        .take(4)
        .collect();
    assert_eq!(looks, [0, 1, 2, 3]);
    site.run = None;
    assert!(lines(&mut stream).any(|line| line == "event: end"));
    for period in ["1ns", "1h", "x", "-1s", "", "19ms"] {
        site.get(&format!("/api/v1/lab/watch?period={period}")).refused(422);
    }
    site.get("/api/v1/lab/watch").refused(404);
}

#[test]
fn only_so_many_watch_and_a_place_that_is_left_is_free_again() {
    let site = GatewayRun::new();
    let watching: Vec<_> = (0..32).map(|_| site.watch("50ms")).collect();
    assert!(site.get("/api/v1/lab/watch?period=50ms").refused(503).contains("too many"));
    assert_eq!(site.post("/api/v1/lab/stats", "").status, 200, "others are answered");
    drop(watching);
    let start = Instant::now();
    loop {
        let mut stream = site.connect();
        let request = "GET /api/v1/lab/watch?period=20ms HTTP/1.1\r\nHost: localhost\r\n\r\n";
        stream.write_all(request.as_bytes()).unwrap();
        let mut stream = BufReader::new(stream);
        if lines(&mut stream).next().is_some_and(|line| line.ends_with("200 OK")) {
            return;
        }
        assert!(start.elapsed() < Duration::from_secs(120), "no place became free");
    }
}

#[test]
fn nonsense_harms_nobody_else() {
    let site = GatewayRun::new();
    for request in [
        &b""[..],
        b"\0\xff\xfe\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"POST /api/v1/lab/set HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        b"POST /api/v1/lab/set HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"GET /%ff%fe/%00 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
        b"GET /api/v1/%ff/watch HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
        &[b'A'; 100_000],
    ] {
        let mut stream = site.connect();
        let _ = stream.write_all(request);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        let answer = Answer::of(&String::from_utf8_lossy(&answer));
        assert_ne!(answer.status, 200, "{answer:?}");
    }
    let headers = "X: y\r\n".repeat(500);
    assert_ne!(site.request("GET /api/v1/running", &headers, "").status, 200);
    // Clients that connect and send nothing must not block others.
    let silent: Vec<_> = (0..40).map(|_| site.connect()).collect();
    assert_eq!(site.post("/api/v1/lab/stats", "").json()["look"], 0);
    drop(silent);
}

#[test]
fn half_open_connections_lock_nobody_out() {
    let site = GatewayRun::new();
    // These are more connections than the maximum. Their requests are incomplete in four different
    // ways.
    let heads =
        [&b""[..], b"G", b"POST /api/v1/lab/stats HTTP/1.1\r\n", b"GET / HTTP/1.1\r\nHost: "];
    let held: Vec<_> = heads
        .iter()
        .cycle()
        .take(200)
        .map(|head| {
            let mut stream = site.connect();
            // The connection may already be closed, so an error is ignored.
            let _ = stream.write_all(head);
            stream
        })
        .collect();
    assert_eq!(site.post("/api/v1/lab/stats", "").json()["look"], 0);
    drop(held);
}

#[test]
fn what_is_watched_stays_while_half_open_connections_come() {
    let site = GatewayRun::new();
    let mut stream = site.watch("20ms");
    let held: Vec<_> = (0..200).map(|_| site.connect()).collect();
    let looks = lines(&mut stream).filter(|line| line.starts_with("data:")).take(50).count();
    assert_eq!(looks, 50);
    drop(held);
}

#[test]
fn a_name_given_twice_in_a_request_is_refused() {
    let site = GatewayRun::new();
    let twice = "{\"changes\":{\"up.delay\":\"1ms\",\"up.delay\":\"9ms\"}}";
    site.post("/api/v1/lab/set", twice).refused(400);
    site.post("/api/v1/lab/set", "{\"a\":1,\"a\":2}").refused(400);
    for (line, headers) in [
        ("GET /api/v1/running?a=1&a=2", ""),
        ("GET /api/v1/running", "Host: localhost\r\n"),
        ("GET /api/v1/running", "Authorization: Bearer a\r\nAuthorization: Bearer b\r\n"),
        ("GET /api/v1/running", "Origin: null\r\nOrigin: null\r\n"),
    ] {
        let cause = site.request(line, headers, "").refused(400);
        assert!(cause.contains("is given twice"), "{cause}");
    }
}

#[test]
fn a_stop_ends_what_is_watched_and_closes_the_door() {
    let site = GatewayRun::new();
    let mut stream = site.watch("20ms");
    let address = site.address();
    let GatewayRun { gateway, run, _dir } = site;
    let start = Instant::now();
    gateway.stop();
    assert!(start.elapsed() < Duration::from_secs(120));
    assert!(lines(&mut stream).count() < 1000, "the stream has an end");
    assert!(TcpStream::connect(address).is_err());
    drop(run);
}

#[test]
fn the_page_is_there_or_says_how_to_have_it() {
    let site = GatewayRun::new();
    let page = site.get("/");
    match slipring_web::page_missing() {
        None => {
            assert!(page.status == 200 && page.head.contains("text/html"), "{page:?}");
            assert!(page.body.contains("/main.js") && page.body.contains("/main.css"));
            assert!(site.get("/main.js").head.contains("text/javascript"));
            assert!(site.get("/main.css").head.contains("text/css"));
        }
        Some(why) => {
            assert_eq!(page.status, 503);
            assert!(page.body.contains(why) && page.body.contains("nodejs npm"), "{page:?}");
        }
    }
}

#[test]
fn where_npm_is_the_page_is_built_in_and_asks_nobody_else() {
    if std::process::Command::new("npm").arg("--version").output().is_err() {
        slipring_test_support::skip!("npm is not installed");
        return;
    }
    assert_eq!(slipring_web::page_missing(), None);
    let site = GatewayRun::new();
    for path in ["/", "/main.js", "/main.css"] {
        let body = site.get(path).body;
        for scheme in ["http://", "https://"] {
            // An XML namespace looks like an address, but nothing is requested from it.
            let found = body.replace("http://www.w3.org/", "");
            assert!(!found.contains(scheme), "{path} has {scheme}");
        }
    }
}
