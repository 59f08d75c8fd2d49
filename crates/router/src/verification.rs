//! `fib verify`: compares the tables with a fresh dump of the kernel's routes.

use std::io;

use netlink_sys::protocols::NETLINK_ROUTE;
use serde_json::{Value, json};
use slipring_rtnetlink::{
    DumpFilter, HeaderFlags, MessageBody, Messages, RequestBuilder, RouteFamily,
};

use crate::dump::read_dump;
use crate::routing::RoutingHandle;

/// Maximum number of comparisons. There may be several, because routes may change during a dump, or
/// are still being read from the kernel.
const ATTEMPTS: u32 = 20;

/// Compares all routes, and the ranges that the BPF programs look up. If routes change during a
/// comparison, differences or errors may be due to these changes. So a comparison with differences
/// or an error is repeated: there are at most [`ATTEMPTS`] comparisons.
///
/// # Errors
/// If the kernel refuses the dump, or the tables are still being read from the kernel.
pub(crate) fn verify(routing: &RoutingHandle) -> io::Result<Value> {
    let mut report = compare(routing);
    for _ in 1..ATTEMPTS {
        match &report {
            Ok(report) if report.missing + report.extra + report.different == 0 => break,
            _ => report = compare(routing),
        }
    }
    let report = report?;
    Ok(json!({
        "v": 1,
        "checked": report.checked,
        "missing": report.missing,
        "extra": report.extra,
        "different": report.different,
    }))
}

fn compare(routing: &RoutingHandle) -> io::Result<slipring_fib::VerifyReport> {
    let ended = || io::Error::other("the router is about to end");
    let begun = routing.ask(|routing| routing.mirror.begin_verify()).ok_or_else(ended)?;
    begun.map_err(io::Error::other)?;
    let parts: io::Result<Vec<_>> =
        [RouteFamily::V4, RouteFamily::V6].into_iter().map(dump_routes).collect();
    let parts = parts.inspect_err(|_| routing.tell(|routing| routing.mirror.abort_verify()))?;
    for part in parts {
        for mut buffer in part {
            buffer.shrink_to_fit();
            // One buffer per task, because the routing thread reads the kernel's messages between
            // two tasks.
            routing.tell(move |routing| {
                for message in Messages::new(&buffer).flatten() {
                    if let MessageBody::Route(_, route) = &message.body {
                        routing.mirror.verify(route);
                    }
                }
            });
        }
    }
    // One part per task, for the same reason.
    loop {
        let part = routing.ask(|routing| routing.mirror.end_verify()).ok_or_else(ended)?;
        if let Some(report) = part.map_err(io::Error::other)? {
            return Ok(report);
        }
    }
}

/// Dumps all routes of a family.
fn dump_routes(family: RouteFamily) -> io::Result<Vec<Vec<u8>>> {
    let filter = DumpFilter { family: Some(family), table: None };
    let mut parts = Vec::new();
    read_dump(NETLINK_ROUTE, &RequestBuilder::new(1).dump_routes(filter), |buffer| {
        let is_last = is_last(&buffer)?;
        parts.push(buffer);
        Ok(is_last)
    })?;
    Ok(parts)
}

fn is_last(buffer: &[u8]) -> io::Result<bool> {
    for message in Messages::new(buffer).flatten() {
        if message.header.flags.has(HeaderFlags::DUMP_INTERRUPTED) {
            return Err(io::Error::other("the routes change while they are read; try again"));
        }
        match message.body {
            MessageBody::Done(done) if done.errno == 0 => return Ok(true),
            MessageBody::Done(done) => return Err(errno(done.errno)),
            MessageBody::Error(error) => return Err(errno(error.errno)),
            _ => {}
        }
    }
    Ok(false)
}

fn errno(number: u32) -> io::Error {
    io::Error::from_raw_os_error(i32::try_from(number).unwrap_or_default())
}
