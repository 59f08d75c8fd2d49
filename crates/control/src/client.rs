//! The client: sends requests to a running program.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use crate::line_buffer::{ControlLine, LineBuffer};
use crate::message::ControlRefusal;
use crate::{ControlError, RunningProgram, directory};

/// Maximum time to wait for an answer. Answers take microseconds, unless the program or its machine
/// is stopped.
pub const REPLY_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum time to wait for the answer to `hello` when the client looks for the only run of a
/// program.
const HELLO_TIMEOUT: Duration = Duration::from_secs(1);
/// Maximum length of an answer in bytes. The counters of ten thousand links take some tens of MB.
const MAX_ANSWER_BYTES: usize = 1 << 28;

/// A connection to a running program.
#[derive(Debug)]
pub struct ControlClient {
    stream: UnixStream,
    /// Maximum time to wait for an answer.
    timeout: Duration,
    lines: LineBuffer,
    next_id: u64,
}

impl ControlClient {
    /// Connects to the run in `dir` that has the name or process id `target`. Without a target,
    /// connects to the only run in `dir`.
    ///
    /// # Errors
    /// [`ControlError`] if no run matches, if there are several runs and `target` is `None`, if the
    /// directory or the run is not trusted, or if a system call fails.
    pub fn find(dir: &Path, target: Option<&str>) -> Result<Self, ControlError> {
        let stream = directory::open(dir, target)?;
        let failed = |error| ControlError::system("set up", dir, error);
        stream.set_read_timeout(Some(REPLY_TIMEOUT)).map_err(failed)?;
        stream.set_write_timeout(Some(REPLY_TIMEOUT)).map_err(failed)?;
        Ok(Self {
            stream,
            timeout: REPLY_TIMEOUT,
            lines: LineBuffer::bounded(MAX_ANSWER_BYTES),
            next_id: 1,
        })
    }

    /// Like [`Self::find`], but without a target only the runs of `program` count, as reported by
    /// their answers to `hello`. A run also counts if it does not answer within a second or refuses
    /// this user, because it might be a run of `program`.
    ///
    /// # Errors
    /// The errors of [`Self::find`].
    pub fn find_program(
        dir: &Path,
        target: Option<&str>,
        program: &str,
    ) -> Result<Self, ControlError> {
        if target.is_some() {
            return Self::find(dir, target);
        }
        directory::check_trust(dir)?;
        let is_meant = |run: &RunningProgram| {
            let hello = Self::find(dir, Some(&run.pid.to_string())).and_then(|mut client| {
                client.set_timeout(HELLO_TIMEOUT)?;
                client.request("hello", json!({}))
            });
            match hello {
                Ok(hello) => hello["program"] == program,
                Err(error) => matches!(
                    error,
                    ControlError::TimedOut { .. }
                        | ControlError::System { .. }
                        | ControlError::Refused(_)
                ),
            }
        };
        let only = directory::single(dir, is_meant).map_err(|error| match error {
            ControlError::NothingRuns { dir, .. } => {
                ControlError::NothingRuns { dir, program: Some(program.to_owned()) }
            }
            error => error,
        })?;
        Self::find(dir, Some(&only.pid.to_string()))
    }

    /// Sets the maximum time to wait for answers from now on, for requests that take longer than
    /// usual.
    ///
    /// # Errors
    /// [`ControlError`] if the system cannot set the timeout.
    pub fn set_timeout(&mut self, patience: Duration) -> Result<(), ControlError> {
        self.timeout = patience;
        let both = self.stream.set_read_timeout(Some(patience));
        let both = both.and_then(|()| self.stream.set_write_timeout(Some(patience)));
        both.map_err(|error| self.no_answer(&error))
    }

    /// Sends the request `what` with the arguments `args`, which must be a JSON object. Waits for
    /// the answer and returns its value.
    ///
    /// # Errors
    /// [`ControlError`] if the program refuses the request or sends no valid answer in time.
    pub fn request(&mut self, what: &str, args: Value) -> Result<Value, ControlError> {
        self.send(what, args)?;
        self.answer()
    }

    /// Makes the program send a value once per period, and passes each value to `show`. Ends when
    /// `show` returns false or the program ends.
    ///
    /// # Errors
    /// [`ControlError`] if the program refuses the request or sends no valid answer in time.
    pub fn watch(
        &mut self,
        period: Duration,
        mut show: impl FnMut(Value) -> bool,
    ) -> Result<(), ControlError> {
        self.set_timeout(period.saturating_add(REPLY_TIMEOUT))?;
        self.send("watch", json!({ "period": format!("{}ns", period.as_nanos()) }))?;
        let mut more = show(self.answer()?);
        while more {
            more = match self.next_line()? {
                Some(line) => show(self.value(&line)?),
                None => false,
            };
        }
        Ok(())
    }

    /// Returns the connection's stream without timeouts, for use after an answer that upgraded the
    /// connection ([`ControlReply::Upgrade`](crate::ControlReply::Upgrade)).
    ///
    /// # Errors
    /// [`ControlError`] if the system cannot clear the timeouts.
    pub fn into_stream(self) -> Result<UnixStream, ControlError> {
        let both = self.stream.set_read_timeout(None);
        let both = both.and_then(|()| self.stream.set_write_timeout(None));
        both.map_err(|error| self.no_answer(&error))?;
        Ok(self.stream)
    }

    fn send(&mut self, what: &str, args: Value) -> Result<(), ControlError> {
        let mut request = json!({ "id": self.next_id, "do": what });
        if let (Value::Object(request), Value::Object(args)) = (&mut request, args) {
            request.extend(args);
        }
        let line = format!("{request}\n");
        match self.stream.write_all(line.as_bytes()) {
            // The peer may have closed the connection after it sent an error message. The message
            // is then read as the answer.
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
            written => written.map_err(|error| self.no_answer(&error)),
        }
    }

    fn answer(&mut self) -> Result<Value, ControlError> {
        let line = self.next_line()?;
        let line =
            line.ok_or_else(|| ControlError::NoAnswer("the program has ended".to_owned()))?;
        let answer = self.value(&line);
        self.next_id += 1;
        answer
    }

    /// Returns the next line; `None` at the end of the stream.
    fn next_line(&mut self) -> Result<Option<Vec<u8>>, ControlError> {
        loop {
            match self.lines.next() {
                Some(ControlLine::Whole(line)) => return Ok(Some(line)),
                Some(ControlLine::TooLong) => return Err(unreadable("the answer is too long")),
                None => {}
            }
            match self.lines.fill(&self.stream) {
                Ok(true) => {}
                Ok(false) => return Ok(None),
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => {
                    return Ok(None);
                }
                Err(error) => return Err(self.no_answer(&error)),
            }
        }
    }

    fn value(&self, line: &[u8]) -> Result<Value, ControlError> {
        let answer: Value =
            serde_json::from_slice(line).map_err(|_| unreadable("it is no JSON"))?;
        let Value::Object(mut answer) = answer else { return Err(unreadable("it is no object")) };
        if let Some(value) = answer.remove("ok") {
            return Ok(value);
        }
        let error = answer.remove("error").unwrap_or_default();
        let refusal: ControlRefusal =
            serde_json::from_value(error).map_err(|_| unreadable("it is neither ok nor error"))?;
        Err(ControlError::Refused(refusal))
    }

    fn no_answer(&self, error: &std::io::Error) -> ControlError {
        match error.kind() {
            std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut => {
                ControlError::TimedOut { seconds: self.timeout.as_secs() }
            }
            _ => ControlError::NoAnswer(error.to_string()),
        }
    }
}

fn unreadable(what: &str) -> ControlError {
    ControlError::NoAnswer(format!("what came is none: {what}"))
}
