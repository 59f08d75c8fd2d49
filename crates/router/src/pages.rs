//! Pages of long tables, so that the routing thread works on no request for long.

use std::net::IpAddr;

use slipring_fib::{Mirror, RouteEntry};
use slipring_rtnetlink::RouteFamily;

/// Maximum number of routes or neighbours in a page.
pub(crate) const PAGE: usize = 2000;

/// A table and a prefix in it: where a page ends.
pub(crate) type RoutePlace = (u32, (IpAddr, u8));

/// The routes after a place, and the place of the next page, if this one is full.
pub(crate) fn routes(
    mirror: &Mirror,
    family: RouteFamily,
    after: Option<RoutePlace>,
) -> (Vec<RouteEntry>, Option<RoutePlace>) {
    let mut page: Vec<_> = mirror.routes_after(family, after).take(PAGE).collect();
    let Some(last) = page.last().map(place).filter(|_| page.len() == PAGE) else {
        return (page, None);
    };
    // The last prefix may have more routes: the next page begins with it. A prefix that fills a page
    // is cut off.
    if let Some(at) = page.iter().rposition(|entry| place(entry) != last) {
        page.truncate(at + 1);
    }
    let next = page.last().map(place);
    (page, next)
}

fn place(entry: &RouteEntry) -> RoutePlace {
    (entry.table, entry.prefix)
}
