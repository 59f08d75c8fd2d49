//! Requests: ioctls on an open file, from their bytes to their answers.

pub(crate) mod csb;
pub(crate) mod delegation;
pub(crate) mod dispatch;
pub(crate) mod info;
pub(crate) mod ioctl;
pub(crate) mod kloop;
pub(crate) mod legacy;
pub(crate) mod message;
pub(crate) mod options;
pub(crate) mod queue_delegation;
pub(crate) mod register;
pub(crate) mod repeat;
pub(crate) mod vale;
