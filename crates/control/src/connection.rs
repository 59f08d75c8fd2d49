//! One client: its requests in turn, and what it watches in between.

use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::{Map, Value};

use crate::lines::{Line, Lines};
use crate::message::answer_line;
use crate::server::Service;
use crate::{Refusal, Reply, Request};

pub(crate) struct Connection<'c> {
    stream: &'c UnixStream,
    service: &'c dyn Service,
    lines: Lines,
    watch: Option<Watch>,
}

/// A request that is answered again and again.
struct Watch {
    request: Request,
    period: Duration,
    due: Instant,
}

impl<'c> Connection<'c> {
    pub(crate) fn new(stream: &'c UnixStream, service: &'c dyn Service) -> Self {
        let lines = Lines::bounded(service.longest_request());
        Self { stream, service, lines, watch: None }
    }

    /// Answers until the client leaves.
    pub(crate) fn serve(mut self) -> io::Result<()> {
        loop {
            match self.wait()? {
                false => self.look()?,
                true if !self.lines.fill(self.stream)? => return Ok(()),
                true => {
                    while let Some(line) = self.lines.next() {
                        self.obey(line)?;
                    }
                }
            }
        }
    }

    /// Waits for the client, or for the time of the next look; whether the client has spoken.
    fn wait(&self) -> io::Result<bool> {
        let left =
            self.watch.as_ref().map(|watch| watch.due.saturating_duration_since(Instant::now()));
        let timeout = left.map(|left| Timespec {
            tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: left.subsec_nanos().into(),
        });
        match poll(&mut [PollFd::new(self.stream, PollFlags::IN)], timeout.as_ref()) {
            Ok(ready) => Ok(ready > 0),
            Err(rustix::io::Errno::INTR) => self.wait(),
            Err(error) => Err(error.into()),
        }
    }

    fn obey(&mut self, line: Line) -> io::Result<()> {
        let request = match line {
            Line::TooLong => {
                let longest = self.service.longest_request();
                let cause = format!("the line is longer than {longest} bytes");
                return self.write(&Value::Null, &Err(Refusal::malformed(cause)));
            }
            Line::Whole(line) => Request::read(&line),
        };
        self.watch = None;
        let request = match request {
            Ok(request) => request,
            Err(error) => return self.write(&error.0, &Err(error.1)),
        };
        match self.service.answer(&request) {
            Ok(Reply::Once(value)) => self.write(&request.id, &Ok(value)),
            Err(refusal) => self.write(&request.id, &Err(refusal)),
            Ok(Reply::Then(value, act)) => {
                let written = self.write(&request.id, &Ok(value));
                act();
                written
            }
            Ok(Reply::Every(what, period)) => {
                let request = Request { id: request.id, what: what.to_owned(), args: Map::new() };
                self.watch = Some(Watch { request, period, due: Instant::now() });
                Ok(())
            }
        }
    }

    /// What is watched, once more. A client that is slow to read misses looks, and no other does.
    fn look(&mut self) -> io::Result<()> {
        let Some(watch) = &mut self.watch else { return Ok(()) };
        watch.due = (watch.due + watch.period).max(Instant::now());
        let id = watch.request.id.clone();
        let answer = match self.service.answer(&watch.request) {
            Ok(Reply::Once(value)) => Ok(value),
            Ok(_) => Err(Refusal::malformed("it cannot be watched")),
            Err(refusal) => Err(refusal),
        };
        self.write(&id, &answer)
    }

    fn write(&mut self, id: &Value, answer: &Result<Value, Refusal>) -> io::Result<()> {
        self.stream.write_all(&answer_line(id, answer))
    }
}
