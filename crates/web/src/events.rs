//! What is watched, as a body of server-sent events that ends when nobody wants it any more.

use std::convert::Infallible;
use std::path::PathBuf;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame};
use serde_json::Value;
use slipring_control::{Client, ControlError};
use tokio::runtime::Handle;
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::sync::{OwnedSemaphorePermit, watch};

use crate::answer::Refused;

/// Values that wait for a slow client at most; it misses those that come then.
const WAITING: usize = 2;
/// How long a client may take nothing until it is given up.
const PATIENCE: Duration = Duration::from_secs(30);

/// What a run says, or why it says no more.
pub(crate) type Said = Result<Value, ControlError>;

/// Starts a thread that watches a run.
pub(crate) fn follow(dir: PathBuf, target: Option<String>, period: Duration) -> Receiver<Said> {
    let (says, said) = mpsc::channel(WAITING);
    let handle = Handle::current();
    tokio::task::spawn_blocking(move || {
        // Waits in this thread, and so in the socket's, which skips what was not taken in time.
        let hand = |value| give(&handle, &says, Ok(value));
        let watched =
            Client::find(&dir, target.as_deref()).and_then(|mut client| client.watch(period, hand));
        if let Err(error) = watched {
            give(&handle, &says, Err(error));
        }
    });
    said
}

fn give(handle: &Handle, says: &Sender<Said>, said: Said) -> bool {
    handle.block_on(says.send_timeout(said, PATIENCE)).is_ok()
}

/// The body.
pub(crate) struct Events {
    first: Option<Value>,
    said: Receiver<Said>,
    over: bool,
    stopped: Pin<Box<dyn Future<Output = ()> + Send>>,
    /// Of those that may watch at a time.
    _place: OwnedSemaphorePermit,
}

impl Events {
    /// Events that go on from a first value until `stop` says true.
    pub(crate) fn new(
        first: Value,
        said: Receiver<Said>,
        mut stop: watch::Receiver<bool>,
        place: OwnedSemaphorePermit,
    ) -> Self {
        let stopped = Box::pin(async move {
            // It cannot be said any more when the gateway is gone, which is a stop too.
            let _ = stop.wait_for(|stop| *stop).await;
        });
        Self { first: Some(first), said, over: false, stopped, _place: place }
    }

    fn event(&mut self, said: Option<Said>) -> Bytes {
        match said {
            Some(Ok(value)) => format!("data: {value}\n\n"),
            Some(Err(error)) => {
                self.over = true;
                format!("event: fault\ndata: {}\n\n", Refused::from(error).json())
            }
            None => {
                self.over = true;
                "event: end\ndata: {}\n\n".to_owned()
            }
        }
        .into()
    }
}

impl Body for Events {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.over || self.stopped.as_mut().poll(context).is_ready() {
            return Poll::Ready(None);
        }
        let said = match self.first.take() {
            Some(first) => Some(Ok(first)),
            None => match self.said.poll_recv(context) {
                Poll::Ready(said) => said,
                Poll::Pending => return Poll::Pending,
            },
        };
        let event = self.event(said);
        Poll::Ready(Some(Ok(Frame::data(event))))
    }
}
