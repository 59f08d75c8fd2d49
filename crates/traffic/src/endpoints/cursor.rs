//! Moves through a set of endpoints, one step or one jump at a time.

use slipring_model::Stream;

use super::Endpoints;

/// An address, as an integer, with a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TrafficEndpoint {
    pub(crate) address: u128,
    pub(crate) port: u16,
}

/// A position in a set of endpoints. It is valid only for the [`Endpoints`] for which it was made.
/// The caller passes this set to each call that moves it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EndpointCursor {
    block: usize,
    index: u128,
    endpoint: TrafficEndpoint,
}

impl EndpointCursor {
    /// Returns the position of the pair with the number `position`, counted from 0.
    ///
    /// # Panics
    /// If the set has no pair with the number `position`.
    pub(crate) fn at(endpoints: &Endpoints, mut position: u128) -> Self {
        for (block, shape) in endpoints.blocks.iter().enumerate() {
            if position < shape.count() {
                let (index, port) = (position / shape.ports(), position % shape.ports());
                return Self::at_block(endpoints, block, index, port as u16);
            }
            position -= shape.count();
        }
        panic!("the position must be below the number of pairs");
    }

    /// Returns a random position. Each block is equally likely, and so is each pair in a block.
    #[inline]
    pub(crate) fn random(endpoints: &Endpoints, stream: &mut Stream) -> Self {
        let block = match endpoints.blocks.len() {
            1 => 0,
            blocks => stream.below(blocks as u64) as usize,
        };
        let shape = &endpoints.blocks[block];
        let index = up_to(stream, shape.last_index);
        let port_span = u64::from(shape.last_port - shape.first_port);
        Self::at_block(endpoints, block, index, stream.between(0, port_span) as u16)
    }

    #[inline]
    fn at_block(endpoints: &Endpoints, block: usize, index: u128, port_index: u16) -> Self {
        let shape = &endpoints.blocks[block];
        let endpoint = TrafficEndpoint {
            address: shape.first + index * shape.step,
            port: shape.first_port + port_index,
        };
        Self { block, index, endpoint }
    }

    /// Moves to the next pair. After the last pair, moves to the first one and returns `true`.
    #[inline]
    pub(crate) fn step(&mut self, endpoints: &Endpoints) -> bool {
        let shape = &endpoints.blocks[self.block];
        if self.endpoint.port < shape.last_port {
            self.endpoint.port += 1;
            return false;
        }
        self.endpoint.port = shape.first_port;
        if self.index < shape.last_index {
            self.index += 1;
            self.endpoint.address += shape.step;
            return false;
        }
        let block = (self.block + 1) % endpoints.blocks.len();
        *self = Self::at_block(endpoints, block, 0, 0);
        block == 0
    }

    /// The pair at this position.
    #[inline]
    pub(crate) fn endpoint(&self) -> TrafficEndpoint {
        self.endpoint
    }
}

/// Draws a number from `0..=last`. Every value is equally likely.
fn up_to(stream: &mut Stream, last: u128) -> u128 {
    if let Ok(last) = u64::try_from(last) {
        return u128::from(stream.between(0, last));
    }
    let mask = u128::MAX >> last.leading_zeros();
    loop {
        let high = u128::from(stream.next_u64());
        let drawn = (high << 64 | u128::from(stream.next_u64())) & mask;
        if drawn <= last {
            return drawn;
        }
    }
}

#[cfg(test)]
mod tests {
    use core::net::Ipv4Addr;
    use std::collections::BTreeSet;
    use std::string::{String, ToString};
    use std::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    fn texts(endpoints: &Endpoints, count: usize) -> Vec<String> {
        let mut walk = EndpointCursor::at(endpoints, 0);
        (0..count)
            .map(|_| {
                let TrafficEndpoint { address, port } = walk.endpoint();
                walk.step(endpoints);
                std::format!("{}:{port}", Ipv4Addr::from_bits(address as u32))
            })
            .collect()
    }

    #[test]
    fn ports_count_up_before_addresses_and_addresses_before_items() {
        let endpoints: Endpoints = "10.0.0.9:1-10.0.0.10:2,10.5.0.0/31:7".parse().unwrap();
        let expected = [
            "10.0.0.9:1",
            "10.0.0.9:2",
            "10.0.0.10:1",
            "10.0.0.10:2",
            "10.5.0.0:7",
            "10.5.0.1:7",
            "10.0.0.9:1",
        ];
        assert_eq!(texts(&endpoints, 7), expected.map(|text| text.to_string()));
    }

    #[test]
    fn group_counts_up_its_own_part_of_the_address() {
        let endpoints: Endpoints = "3@[2001:db8::1]-[2001:db8:0:2::9]".parse().unwrap();
        let mut walk = EndpointCursor::at(&endpoints, 0);
        let thirds: Vec<u128> = (0..3)
            .map(|_| {
                let address = walk.endpoint().address;
                walk.step(&endpoints);
                address
            })
            .collect();
        let base = 0x2001_0db8_0000_0000_0000_0000_0000_0001;
        assert_eq!(thirds, [base, base | 1 << 64, base | 2 << 64]);
    }

    #[test]
    fn random_places_cover_a_small_set_and_nothing_else() {
        let endpoints: Endpoints = "10.0.0.0/30:5-7,10.9.9.9:1".parse().unwrap();
        let all: BTreeSet<String> = texts(&endpoints, 13).into_iter().collect();
        let mut stream = Stream::new(1, "walk");
        let drawn: BTreeSet<String> = (0..500)
            .map(|_| {
                let TrafficEndpoint { address, port } =
                    EndpointCursor::random(&endpoints, &mut stream).endpoint();
                std::format!("{}:{port}", Ipv4Addr::from_bits(address as u32))
            })
            .collect();
        assert_eq!(drawn, all);
    }

    #[test]
    fn random_places_reach_beyond_64_bits() {
        let endpoints: Endpoints = "::/0".parse().unwrap();
        let mut stream = Stream::new(1, "walk");
        let high = (0..64).map(|_| EndpointCursor::random(&endpoints, &mut stream).index >> 120);
        assert!(high.collect::<BTreeSet<u128>>().len() > 32);
    }

    proptest! {
        #[test]
        fn jumping_to_a_position_equals_stepping_there(steps in 0u128..40) {
            let endpoints: Endpoints = "10.0.0.0/30:5-7,10.9.9.9:1-9,10.1.1.1".parse().unwrap();
            let total = endpoints.count();
            let mut walk = EndpointCursor::at(&endpoints, 0);
            let mut wraps = 0;
            for _ in 0..steps {
                wraps += u128::from(walk.step(&endpoints));
            }
            prop_assert_eq!(walk, EndpointCursor::at(&endpoints, steps % total));
            prop_assert_eq!(wraps, steps / total);
        }
    }
}
