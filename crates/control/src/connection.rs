//! One client's connection: answers its requests one after the other, and sends the updates of its
//! subscription between the answers.

use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::{Map, Value};

use crate::line_buffer::{ControlLine, LineBuffer};
use crate::message::answer_line;
use crate::server::ControlService;
use crate::{ControlRefusal, ControlReply, ControlRequest};

pub(crate) struct ControlConnection<'c> {
    stream: &'c UnixStream,
    service: &'c dyn ControlService,
    lines: LineBuffer,
    subscription: Option<Subscription>,
}

/// The result of handling a line.
#[derive(PartialEq, Eq)]
enum Handled {
    Answered,
    /// The service has taken over the connection.
    Upgraded,
}

/// A request that the connection answers periodically.
struct Subscription {
    request: ControlRequest,
    period: Duration,
    next_due: Instant,
}

impl<'c> ControlConnection<'c> {
    pub(crate) fn new(stream: &'c UnixStream, service: &'c dyn ControlService) -> Self {
        let lines = LineBuffer::bounded(service.max_request_bytes());
        Self { stream, service, lines, subscription: None }
    }

    /// Handles requests until the client closes the connection, or the service takes it over.
    pub(crate) fn serve(mut self) -> io::Result<()> {
        loop {
            match self.wait_for_client()? {
                false => self.send_update()?,
                true if !self.lines.fill(self.stream)? => return Ok(()),
                true => {
                    while let Some(line) = self.lines.next() {
                        if self.handle_line(line)? == Handled::Upgraded {
                            self.service.serve_stream(self.stream);
                            return Ok(());
                        }
                    }
                }
            }
        }
    }

    /// Waits until the client sends data or the next update is due. Returns whether the client has
    /// sent data.
    fn wait_for_client(&self) -> io::Result<bool> {
        let left = self
            .subscription
            .as_ref()
            .map(|watch| watch.next_due.saturating_duration_since(Instant::now()));
        let timeout = left.map(|left| Timespec {
            tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: left.subsec_nanos().into(),
        });
        match poll(&mut [PollFd::new(self.stream, PollFlags::IN)], timeout.as_ref()) {
            Ok(ready) => Ok(ready > 0),
            Err(rustix::io::Errno::INTR) => self.wait_for_client(),
            Err(error) => Err(error.into()),
        }
    }

    fn handle_line(&mut self, line: ControlLine) -> io::Result<Handled> {
        let request = match line {
            ControlLine::TooLong => {
                let longest = self.service.max_request_bytes();
                let cause = format!("the line is longer than {longest} bytes");
                self.write(&Value::Null, &Err(ControlRefusal::malformed(cause)))?;
                return Ok(Handled::Answered);
            }
            ControlLine::Whole(line) => ControlRequest::read(&line),
        };
        self.subscription = None;
        let request = match request {
            Ok(request) => request,
            Err(error) => {
                self.write(&error.0, &Err(error.1))?;
                return Ok(Handled::Answered);
            }
        };
        match self.service.answer(&request) {
            Ok(ControlReply::Once(value)) => self.write(&request.id, &Ok(value))?,
            Ok(ControlReply::Upgrade(value)) => {
                self.write(&request.id, &Ok(value))?;
                return Ok(Handled::Upgraded);
            }
            Err(refusal) => self.write(&request.id, &Err(refusal))?,
            Ok(ControlReply::Then(value, act)) => {
                let written = self.write(&request.id, &Ok(value));
                act();
                written?;
            }
            Ok(ControlReply::Every(what, period)) => {
                let request =
                    ControlRequest { id: request.id, what: what.to_owned(), args: Map::new() };
                self.subscription =
                    Some(Subscription { request, period, next_due: Instant::now() });
            }
        }
        Ok(Handled::Answered)
    }

    /// Sends the next update. If the client reads slowly, it misses updates; other clients are not
    /// affected.
    fn send_update(&mut self) -> io::Result<()> {
        let Some(watch) = &mut self.subscription else { return Ok(()) };
        watch.next_due = (watch.next_due + watch.period).max(Instant::now());
        let id = watch.request.id.clone();
        let answer = match self.service.answer(&watch.request) {
            Ok(ControlReply::Once(value)) => Ok(value),
            Ok(_) => Err(ControlRefusal::malformed("it cannot be watched")),
            Err(refusal) => Err(refusal),
        };
        self.write(&id, &answer)
    }

    fn write(&mut self, id: &Value, answer: &Result<Value, ControlRefusal>) -> io::Result<()> {
        self.stream.write_all(&answer_line(id, answer))
    }
}
