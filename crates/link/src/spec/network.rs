//! Links joined to a network.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use slipring_filter::CbpfProgram;

use super::{LinkSpec, SpecError};

/// The maximum number of entries, and of exits: frames carry their indices in 16 bits.
const MAX_ENDS: usize = 1 << 16;

/// Entries and exits of a network, nodes, and the links between them.
///
/// ```
/// use slipring_link::{LinkSpec, NetworkSpec};
///
/// let plan = NetworkSpec::between("left", "right", LinkSpec::wire("up"), LinkSpec::wire("down"));
/// assert!(plan.check().is_ok());
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NetworkSpec {
    /// Names of the entries, where frames enter.
    pub entries: Vec<String>,
    /// Names of the exits, where frames leave.
    pub exits: Vec<String>,
    /// Names of the nodes where links meet.
    pub nodes: Vec<String>,
    /// The links.
    pub links: Vec<NetworkLink>,
    /// Which frames take which link, at entries and nodes where several links begin. The first
    /// matching class decides. A frame that matches no class takes the link that no class names;
    /// without such a link the frame is lost.
    pub classes: Vec<ClassSpec>,
}

/// A link and its ends.
#[derive(Clone, Debug, PartialEq)]
pub struct NetworkLink {
    /// The specification of the link.
    pub spec: LinkSpec,
    /// Where the link begins.
    pub from: LinkSource,
    /// Where the link ends.
    pub to: LinkTarget,
}

/// Where a link begins: an index into the lists of the [`NetworkSpec`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LinkSource {
    /// At an entry.
    Entry(usize),
    /// At a node.
    Node(usize),
}

/// Where a link ends: an index into the lists of the [`NetworkSpec`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LinkTarget {
    /// At an exit.
    Exit(usize),
    /// At a node.
    Node(usize),
}

/// A filter, and the link that matching frames take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassSpec {
    /// The pcap filter expression as the user wrote it.
    pub filter: String,
    /// The compiled filter.
    pub program: CbpfProgram,
    /// Index of the link that matching frames take; the class applies to frames at the source of
    /// that link.
    pub link: usize,
}

impl ClassSpec {
    /// Compiles a pcap filter expression.
    ///
    /// # Errors
    /// [`SpecError`] that contains the error of the filter expression, with its column if it has
    /// one.
    pub fn new(filter: &str, link: usize) -> Result<Self, SpecError> {
        let program = slipring_filter::compile(filter)
            .map_err(|error| SpecError::new("match", format!("`{filter}`"), &error.to_string()))?;
        Ok(Self { filter: filter.to_string(), program, link })
    }
}

impl NetworkSpec {
    /// One link, from the entry `in` to the exit `out`.
    #[must_use]
    pub fn single(link: LinkSpec) -> Self {
        let link = NetworkLink { spec: link, from: LinkSource::Entry(0), to: LinkTarget::Exit(0) };
        Self {
            entries: vec!["in".into()],
            exits: vec!["out".into()],
            links: vec![link],
            ..Self::default()
        }
    }

    /// Two ports and a link in each direction. Entry and exit 0 are the left port, entry and exit 1
    /// the right one. Link 0 is `up`, from left to right; link 1 is `down`.
    #[must_use]
    pub fn between(left: &str, right: &str, up: LinkSpec, down: LinkSpec) -> Self {
        let names = vec![left.to_string(), right.to_string()];
        let link = |spec, from, to| NetworkLink {
            spec,
            from: LinkSource::Entry(from),
            to: LinkTarget::Exit(to),
        };
        Self {
            entries: names.clone(),
            exits: names,
            links: vec![link(up, 0, 1), link(down, 1, 0)],
            ..Self::default()
        }
    }

    /// Validates the plan and every link.
    ///
    /// # Errors
    /// [`SpecError`] that names the first part that cannot be built: more than 65,536 entries or
    /// exits, an invalid link, an empty name, a name that is used twice, a link with an end that
    /// does not exist, a class with a link that does not exist, two links for the same frames, or a
    /// cycle of links.
    pub fn check(&self) -> Result<(), SpecError> {
        self.check_counts()?;
        self.links.iter().try_for_each(|link| link.spec.check())?;
        self.check_names()?;
        self.check_ends()?;
        self.check_defaults()?;
        self.check_circles()
    }

    fn check_counts(&self) -> Result<(), SpecError> {
        let counts = [("entries", self.entries.len()), ("exits", self.exits.len())];
        match counts.into_iter().find(|(_, count)| *count > MAX_ENDS) {
            Some((field, count)) => Err(SpecError::new(field, count, "at most 65536")),
            None => Ok(()),
        }
    }

    fn check_names(&self) -> Result<(), SpecError> {
        unique("link", self.links.iter().map(|link| link.spec.name.as_str()))?;
        unique("entry", self.entries.iter().map(String::as_str))?;
        unique("exit", self.exits.iter().map(String::as_str))?;
        unique("node", self.nodes.iter().map(String::as_str))
    }

    fn check_ends(&self) -> Result<(), SpecError> {
        let refuse = |part: &str, field, index, count| {
            let allowed = format!("an index below {count}");
            Err(SpecError::new(field, index, &allowed).within(part))
        };
        for link in &self.links {
            let name = format!("link.{}", link.spec.name);
            let (from, sources) = match link.from {
                LinkSource::Entry(index) => (index, self.entries.len()),
                LinkSource::Node(index) => (index, self.nodes.len()),
            };
            if from >= sources {
                return refuse(&name, "from", from, sources);
            }
            let (to, targets) = match link.to {
                LinkTarget::Exit(index) => (index, self.exits.len()),
                LinkTarget::Node(index) => (index, self.nodes.len()),
            };
            if to >= targets {
                return refuse(&name, "to", to, targets);
            }
        }
        match self.classes.iter().find(|class| class.link >= self.links.len()) {
            Some(class) => refuse("class", "use", class.link, self.links.len()),
            None => Ok(()),
        }
    }

    fn check_defaults(&self) -> Result<(), SpecError> {
        let classed: BTreeSet<usize> = self.classes.iter().map(|class| class.link).collect();
        let mut taken = BTreeSet::new();
        for (index, link) in self.links.iter().enumerate() {
            if !classed.contains(&index) && !taken.insert(link.from) {
                let field = format!("link.{}.from", link.spec.name);
                let allowed = "one link of a place without a class";
                return Err(SpecError::new(&field, self.source_name(link.from), allowed));
            }
        }
        Ok(())
    }

    fn source_name(&self, source: LinkSource) -> &str {
        match source {
            LinkSource::Entry(index) => &self.entries[index],
            LinkSource::Node(index) => &self.nodes[index],
        }
    }

    /// Returns an error if links form a cycle. Repeatedly removes nodes that no link reaches; the
    /// nodes that remain are on a cycle or downstream of one.
    fn check_circles(&self) -> Result<(), SpecError> {
        let mut feeders = vec![0usize; self.nodes.len()];
        let mut leaving: BTreeMap<LinkSource, Vec<usize>> = BTreeMap::new();
        for link in &self.links {
            if let LinkTarget::Node(node) = link.to {
                feeders[node] += 1;
                leaving.entry(link.from).or_default().push(node);
            }
        }
        let unfed = (0..feeders.len()).filter(|&node| feeders[node] == 0).map(LinkSource::Node);
        let mut reached: Vec<_> =
            (0..self.entries.len()).map(LinkSource::Entry).chain(unfed).collect();
        while let Some(source) = reached.pop() {
            for node in leaving.remove(&source).unwrap_or_default() {
                feeders[node] -= 1;
                if feeders[node] == 0 {
                    reached.push(LinkSource::Node(node));
                }
            }
        }
        match feeders.iter().position(|&left| left > 0) {
            Some(node) => {
                Err(SpecError::new("node", &self.nodes[node], "links that form no circle"))
            }
            None => Ok(()),
        }
    }
}

fn unique<'a>(field: &str, names: impl Iterator<Item = &'a str>) -> Result<(), SpecError> {
    let mut seen = BTreeSet::new();
    for name in names {
        if name.is_empty() {
            return Err(SpecError::new(field, "an empty name", "a name"));
        }
        if !seen.insert(name) {
            return Err(SpecError::new(field, format!("`{name}` twice"), "names that differ"));
        }
    }
    Ok(())
}
