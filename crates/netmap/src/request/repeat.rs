//! Requests that the kernel sends again after a restart.

use crate::open::handle::OpenHandle;
use crate::request::message::NetmapRequest;
use crate::types::lock::lock;
use crate::types::state::AnsweredCall;

impl OpenHandle {
    /// If the answer to this request was recorded before a restart, sets that answer and returns
    /// true.
    pub(crate) fn replay_answer(&self, request: &mut NetmapRequest) -> bool {
        let Some(kept) = &self.persisted else { return false };
        let answered = lock(&kept.last_answer);
        let Some(same) = answered.as_ref().filter(|one| Some(one.call) == request.call) else {
            return false;
        };
        request.body.clone_from(&same.body);
        request.options.apply_granted(&same.options);
        true
    }

    /// Records the answer of a request, before its caller gets it.
    pub(crate) fn record_answer(&self, request: &NetmapRequest) {
        if let (Some(kept), Some(call)) = (&self.persisted, request.call) {
            let (body, options) = (request.body.clone(), request.options.granted_options());
            *lock(&kept.last_answer) = Some(AnsweredCall { call, body, options });
        }
    }
}
