//! Domains and open files: what a user owns, the names of its ports, and the files that its
//! programs have open.

pub(crate) mod attachment_cleanup;
pub(crate) mod bound;
pub(crate) mod commit_lock;
pub(crate) mod commit_log;
pub(crate) mod csb;
pub(crate) mod domain;
pub(crate) mod find;
pub(crate) mod handle;
pub(crate) mod kloop;
pub(crate) mod names;
pub(crate) mod poll;
pub(crate) mod poll_credit;
pub(crate) mod provider;
pub(crate) mod switch_control;
pub(crate) mod vale_ports;
