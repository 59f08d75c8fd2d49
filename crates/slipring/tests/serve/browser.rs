//! A headless Chromium, driven over WebDriver (W3C Recommendation, 2018) by Debian's chromedriver.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};
use slipring_test_support::{Lab, Program, eventually, installed};

/// The web element identifier of WebDriver, which is the JSON key of each element's reference.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";
/// Maximum time that chromedriver may take for one command.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(60);

/// A browser in the middle namespace of a lab. On drop, it ends with all its processes.
pub(crate) struct Browser<'l> {
    lab: &'l Lab,
    port: u16,
    session: String,
    _driver: Program,
    _home: tempfile::TempDir,
}

impl<'l> Browser<'l> {
    /// Starts the browser; returns `None`, and prints why, if it is not installed.
    pub(crate) fn start(lab: &'l Lab, flags: &[&str]) -> Option<Self> {
        if !["chromium", "chromedriver", "unshare"].into_iter().all(installed) {
            return None;
        }
        let home = tempfile::tempdir().unwrap();
        // The driver has its own PID namespace, so that none of its processes outlives it.
        let mut command = std::process::Command::new("unshare");
        command.args(["--pid", "--fork", "--kill-child", "--mount-proc"]);
        command.args(["chromedriver", "--port=0"]).env("HOME", home.path());
        // The browser puts its lock and unpacked files into this directory. If it is killed, it
        // removes none of them.
        command.env("TMPDIR", home.path());
        let driver = Program::launch(&lab.mid, command);
        let port = driver.wait_for("its port", |output| {
            let rest = output.stdout.split("started successfully on port ").nth(1)?;
            rest.split('.').next()?.trim().parse().ok()
        });
        let mut browser = Self { lab, port, session: String::new(), _driver: driver, _home: home };
        let session = browser.ask("POST", "/session", browser.wishes(flags));
        browser.session = session["sessionId"].as_str().unwrap().to_owned();
        Some(browser)
    }

    fn wishes(&self, flags: &[&str]) -> Value {
        let profile = format!("--user-data-dir={}", self._home.path().join("profile").display());
        let always = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--disable-dev-shm-usage",
            "--hide-scrollbars",
            "--window-size=1440,1000",
            &profile,
        ];
        let args: Vec<_> = always.iter().chain(flags).collect();
        json!({ "capabilities": { "alwaysMatch": {
            "browserName": "chrome",
            "goog:chromeOptions": { "args": args },
            "goog:loggingPrefs": { "browser": "ALL" },
        } } })
    }

    /// Opens a URL.
    pub(crate) fn open(&self, url: &str) {
        self.command("url", json!({ "url": url }));
    }

    /// Runs a script in the page; returns its result.
    pub(crate) fn run(&self, script: &str) -> Value {
        self.command("execute/sync", json!({ "script": script, "args": [] }))
    }

    /// Waits until a JavaScript expression is true in the page.
    pub(crate) fn wait_for(&self, condition: &str) {
        eventually(&format!("{condition}\n{}", self.body()), || {
            (self.run(&format!("return Boolean({condition})")) == json!(true)).then_some(())
        });
    }

    fn body(&self) -> String {
        self.run("return document.body.innerText").as_str().unwrap_or_default().to_owned()
    }

    /// Returns the text of the first matching element.
    pub(crate) fn text(&self, selector: &str) -> String {
        let text = self.run(&format!("return document.querySelector('{selector}').textContent"));
        text.as_str().unwrap_or_default().to_owned()
    }

    /// Clicks the first matching element as a user would.
    pub(crate) fn click(&self, selector: &str) {
        let element = self.find(selector);
        self.command(&format!("element/{element}/click"), json!({}));
    }

    /// Types into the first matching element; U+E014 is the right arrow, U+E007 Enter.
    pub(crate) fn keys(&self, selector: &str, keys: &str) {
        let element = self.find(selector);
        self.command(&format!("element/{element}/value"), json!({ "text": keys }));
    }

    fn find(&self, selector: &str) -> String {
        let wanted = json!({ "using": "css selector", "value": selector });
        self.command("element", wanted)[ELEMENT].as_str().unwrap().to_owned()
    }

    /// Saves a screenshot below the target directory; returns its path.
    pub(crate) fn picture(&self, name: &str) -> PathBuf {
        let path = format!("/session/{}/screenshot", self.session);
        let picture = self.ask("GET", &path, Value::Null);
        let bytes = base64(picture.as_str().unwrap());
        assert!(bytes.starts_with(b"\x89PNG"), "a screenshot is a PNG");
        let kept = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::write(&kept, bytes).unwrap();
        println!("the screenshot is {}", kept.display());
        kept
    }

    /// Returns the browser's error messages.
    pub(crate) fn complaints(&self) -> Vec<String> {
        let all = self.command("se/log", json!({ "type": "browser" }));
        let severe = all.as_array().unwrap().iter().filter(|entry| entry["level"] == "SEVERE");
        severe.map(|entry| entry["message"].to_string()).collect()
    }

    fn command(&self, what: &str, body: Value) -> Value {
        self.ask("POST", &format!("/session/{}/{what}", self.session), body)
    }

    fn ask(&self, method: &str, path: &str, body: Value) -> Value {
        let port = self.port;
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost:{port}\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let answer = self.lab.mid.run(move || exchange(port, &request));
        let mut answer: Value =
            serde_json::from_str(&answer).unwrap_or_else(|_| panic!("{answer}"));
        let value = answer["value"].take();
        assert!(value["error"].is_null(), "{method} {path}: {value:#}");
        value
    }
}

/// Sends a request; returns the body of the answer. The driver leaves connections open, so the end
/// of the body is found by its length.
fn exchange(port: u16, request: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(COMMAND_TIMEOUT)).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut stream = BufReader::new(stream);
    let mut length = 0;
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).unwrap();
        match line.to_lowercase().trim().split_once(':') {
            Some(("content-length", value)) => length = value.trim().parse().unwrap(),
            None if line.trim().is_empty() => break,
            _ => {}
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).unwrap();
    String::from_utf8_lossy(&body).into_owned()
}

/// Decodes base64 (RFC 4648, section 4).
fn base64(text: &str) -> Vec<u8> {
    let digit = |byte: u8| match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    };
    let digits: Vec<_> = text.bytes().filter_map(digit).collect();
    let quads = digits.chunks(4).flat_map(|quad| {
        let bits = quad.iter().fold(0_u32, |bits, digit| bits << 6 | u32::from(*digit));
        let bits = bits << (6 * (4 - quad.len()));
        bits.to_be_bytes()[1..quad.len()].to_vec()
    });
    quads.collect()
}
