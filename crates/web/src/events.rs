//! Values of a run as a stream of server-sent events. It ends when the client, the run or the
//! gateway ends.

use std::convert::Infallible;
use std::path::PathBuf;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame};
use serde_json::Value;
use slipring_control::{ControlClient, ControlError};
use tokio::runtime::Handle;
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::sync::{OwnedSemaphorePermit, watch};

use crate::response::HttpRefusal;

/// Maximum number of values that are queued for a slow client. While the queue is full, the run
/// skips values.
const MAX_QUEUED_EVENTS: usize = 2;
/// A stream ends if its client takes no data for this time.
const CLIENT_STALL_TIMEOUT: Duration = Duration::from_secs(30);

/// A value of the run, or the error that ends the stream.
pub(crate) type WatchUpdate = Result<Value, ControlError>;

/// Starts a thread that watches a run. Returns the channel to which it sends the values.
pub(crate) fn watch_run(
    dir: PathBuf,
    target: Option<String>,
    period: Duration,
) -> Receiver<WatchUpdate> {
    let (sender, update) = mpsc::channel(MAX_QUEUED_EVENTS);
    let handle = Handle::current();
    tokio::task::spawn_blocking(move || {
        // While the client is slow, sending blocks this thread. It then does not read the control
        // socket, and the run skips values that are not read in time.
        let hand = |value| send_update(&handle, &sender, Ok(value));
        let watched = ControlClient::find(&dir, target.as_deref())
            .and_then(|mut client| client.watch(period, hand));
        if let Err(error) = watched {
            send_update(&handle, &sender, Err(error));
        }
    });
    update
}

fn send_update(handle: &Handle, sender: &Sender<WatchUpdate>, update: WatchUpdate) -> bool {
    handle.block_on(sender.send_timeout(update, CLIENT_STALL_TIMEOUT)).is_ok()
}

/// The body of an event stream.
pub(crate) struct EventStream {
    first: Option<Value>,
    updates: Receiver<WatchUpdate>,
    is_over: bool,
    stopped: Pin<Box<dyn Future<Output = ()> + Send>>,
    /// The permit of the client to watch. It is returned on drop.
    _place: OwnedSemaphorePermit,
}

impl EventStream {
    /// Creates a stream that starts with a first value and continues until `stop` becomes true.
    pub(crate) fn new(
        first: Value,
        updates: Receiver<WatchUpdate>,
        mut stop: watch::Receiver<bool>,
        permit: OwnedSemaphorePermit,
    ) -> Self {
        let stopped = Box::pin(async move {
            // An error means that the gateway has ended. So the stream also ends.
            let _ = stop.wait_for(|stop| *stop).await;
        });
        Self { first: Some(first), updates, is_over: false, stopped, _place: permit }
    }

    fn event(&mut self, update: Option<WatchUpdate>) -> Bytes {
        match update {
            Some(Ok(value)) => format!("data: {value}\n\n"),
            Some(Err(error)) => {
                self.is_over = true;
                format!("event: fault\ndata: {}\n\n", HttpRefusal::from(error).json())
            }
            None => {
                self.is_over = true;
                "event: end\ndata: {}\n\n".to_owned()
            }
        }
        .into()
    }
}

impl Body for EventStream {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.is_over || self.stopped.as_mut().poll(context).is_ready() {
            return Poll::Ready(None);
        }
        let update = match self.first.take() {
            Some(first) => Some(Ok(first)),
            None => match self.updates.poll_recv(context) {
                Poll::Ready(update) => update,
                Poll::Pending => return Poll::Pending,
            },
        };
        let event = self.event(update);
        Poll::Ready(Some(Ok(Frame::data(event))))
    }
}
