//! Splits the list of routes into pages, so that no single request occupies the routing thread for
//! long.

use std::net::IpAddr;

use slipring_fib::{Mirror, RouteEntry};
use slipring_rtnetlink::RouteFamily;

/// Maximum number of routes or neighbours in a page.
pub(crate) const PAGE: usize = 2000;

/// A table and a prefix in this table. It marks the end of a page.
pub(crate) type RoutePlace = (u32, (IpAddr, u8));

/// Returns one page: the routes after a place, or the first ones. If the page is full, also returns
/// the place after which the next page begins.
pub(crate) fn routes(
    mirror: &Mirror,
    family: RouteFamily,
    after: Option<RoutePlace>,
) -> (Vec<RouteEntry>, Option<RoutePlace>) {
    let mut page: Vec<_> = mirror.routes_after(family, after).take(PAGE).collect();
    let Some(last) = page.last().map(place).filter(|_| page.len() == PAGE) else {
        return (page, None);
    };
    // The last prefix may have more routes, so the next page begins with this prefix. If one prefix
    // fills a page, its further routes are left out.
    if let Some(at) = page.iter().rposition(|entry| place(entry) != last) {
        page.truncate(at + 1);
    }
    let next = page.last().map(place);
    (page, next)
}

fn place(entry: &RouteEntry) -> RoutePlace {
    (entry.table, entry.prefix)
}
