//! The port map: the output ports of each input port.

use slipring_ipfw::run::PortIndex;

/// For each input port, the ports to which its frames are sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortMap(Vec<Vec<PortIndex>>);

/// Why a port map is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PortMapError {
    /// The text is not a valid map. Contains the text.
    #[error("`{0}` is no part of a map")]
    Unreadable(String),
    /// The map names a port that does not exist.
    #[error("there is no port {number}: they are 1 to {ports}")]
    NoPort {
        /// The number as the user wrote it.
        number: u64,
        /// Number of existing ports.
        ports: usize,
    },
    /// No map is given, and the number of ports is not two. Contains the number of ports.
    #[error("with {0} ports it must be said which frames go where")]
    Missing(usize),
}

impl PortMap {
    /// Returns the map in which each of two ports sends to the other.
    #[must_use]
    pub fn crossed() -> Self {
        Self(vec![vec![1], vec![0]])
    }

    /// Parses words like `1=2,3`, which means that port 1 sends to ports 2 and 3. Ports are counted
    /// from 1 to `ports`. Without words, the map of two ports is [`Self::crossed`].
    ///
    /// # Errors
    /// [`PortMapError`] if a word is invalid or names a port that does not exist, or if there are
    /// no words and the number of ports is not two.
    pub fn read<'w>(
        words: impl IntoIterator<Item = &'w str>,
        ports: usize,
    ) -> Result<Self, PortMapError> {
        let mut map = vec![Vec::new(); ports];
        let mut is_said = false;
        for word in words {
            is_said = true;
            let wrong = || PortMapError::Unreadable(word.to_owned());
            let (from, to) = word.split_once('=').ok_or_else(wrong)?;
            let number = |text: &str| -> Result<PortIndex, PortMapError> {
                let number: u64 = text.trim().parse().map_err(|_| wrong())?;
                match usize::try_from(number) {
                    Ok(at) if (1..=ports).contains(&at) => Ok((at - 1) as PortIndex),
                    _ => Err(PortMapError::NoPort { number, ports }),
                }
            };
            let targets: Result<Vec<_>, _> = to.split(',').map(number).collect();
            map[usize::from(number(from)?)].extend(targets?);
        }
        match (is_said, ports) {
            (true, _) => Ok(Self(map)),
            (false, 2) => Ok(Self::crossed()),
            (false, _) => Err(PortMapError::Missing(ports)),
        }
    }

    /// Returns the output ports for the frames of a port.
    #[must_use]
    pub fn targets(&self, from: PortIndex) -> &[PortIndex] {
        self.0.get(usize::from(from)).map_or(&[], |targets| targets)
    }

    /// Returns the number of ports of the map.
    #[must_use]
    pub fn ports(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_ports_are_crossed_and_more_want_a_map() {
        assert_eq!(PortMap::read([], 2), Ok(PortMap::crossed()));
        assert_eq!(PortMap::read([], 3), Err(PortMapError::Missing(3)));
        let map = PortMap::read(["1=2,3", "2=1", "3=1"], 3).unwrap();
        assert_eq!(
            (map.targets(0), map.targets(2), map.targets(7)),
            (&[1, 2][..], &[0][..], &[][..])
        );
    }

    #[test]
    fn a_map_with_a_mistake_names_it() {
        for (word, text) in [
            ("1", "`1` is no part of a map"),
            ("1=x", "`1=x` is no part of a map"),
            ("1=4", "there is no port 4: they are 1 to 3"),
            ("0=1", "there is no port 0: they are 1 to 3"),
        ] {
            assert_eq!(PortMap::read([word], 3).unwrap_err().to_string(), text);
        }
    }
}
