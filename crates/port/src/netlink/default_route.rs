//! Which links carry a default route.

use std::io;

use slipring_rtnetlink::{
    Change, DumpFilter, HeaderFlags, MessageBody, Messages, RequestBuilder, RouteKind,
    RouteMessage, TABLE_LOCAL,
};

use super::Netlink;

impl Netlink {
    /// Returns whether a default route leads through a link. A unicast default route of IPv4 or
    /// IPv6 counts, in any table, if any of its next hops is on the link. Routes that the kernel
    /// made from router advertisements also count.
    ///
    /// # Errors
    /// The kernel's error; `InvalidData` if it sends a malformed message.
    pub fn has_default_route(&self, index: u32) -> io::Result<bool> {
        /// Maximum number of listings: a listing is incomplete if the routes change meanwhile.
        const ATTEMPTS: usize = 8;
        for _ in 0..ATTEMPTS {
            let (found, is_whole) = self.list_default_routes(index)?;
            if found || is_whole {
                return Ok(found);
            }
        }
        Err(io::ErrorKind::Interrupted.into())
    }

    /// Lists the routes. Returns whether a default route leads through the link, and whether the
    /// listing is complete.
    fn list_default_routes(&self, index: u32) -> io::Result<(bool, bool)> {
        self.socket.send(&RequestBuilder::new(0).dump_routes(DumpFilter::default()), 0)?;
        let (mut found, mut is_whole) = (false, true);
        loop {
            let (datagram, _) = self.socket.recv_from_full()?;
            for message in Messages::new(&datagram) {
                let invalid = |error| io::Error::new(io::ErrorKind::InvalidData, error);
                let message = message.map_err(invalid)?;
                is_whole &= !message.header.flags.has(HeaderFlags::DUMP_INTERRUPTED);
                match message.body {
                    MessageBody::Route(Change::New, route) => found |= is_default(&route, index),
                    MessageBody::Done(done) if done.errno == 0 => return Ok((found, is_whole)),
                    MessageBody::Done(ended) => {
                        return Err(io::Error::from_raw_os_error(ended.errno as i32));
                    }
                    MessageBody::Error(refused) => {
                        return Err(io::Error::from_raw_os_error(refused.errno as i32));
                    }
                    _ => {}
                }
            }
        }
    }
}

fn is_default(route: &RouteMessage<'_>, index: u32) -> bool {
    let is_set = route.prefix_len == 0 && route.table != TABLE_LOCAL && !route.is_cached;
    let mut hops = route.hops();
    is_set && route.kind == RouteKind::Unicast && hops.any(|hop| hop.ifindex == index)
}
