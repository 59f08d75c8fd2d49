use alloc::sync::Arc;
use core::borrow::Borrow;
use core::fmt;
use core::hash::{Hash, Hasher};
use core::str::FromStr;

/// Name of a table, of states or of another object: 1 to 63 letters, digits, `_`, `-`, `.`.
///
/// Copies share the text, which saves memory because every state has a name.
#[derive(Clone, Debug, Eq, PartialOrd, Ord)]
pub struct ObjectName(Arc<str>);

impl PartialEq for ObjectName {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        // Names of states are usually copies of their rule's name, so comparing pointers usually
        // suffices.
        Arc::ptr_eq(&self.0, &other.0) || self.0 == other.0
    }
}

impl Hash for ObjectName {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

/// A text that is not an [`ObjectName`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a name has 1 to 63 letters, digits, `_`, `-` and `.`")]
pub struct ObjectNameError;

impl ObjectName {
    /// Maximum length of a name, in bytes.
    pub const MAX_LEN: usize = 63;

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name of states without an explicit name.
    #[must_use]
    pub fn default_state() -> Self {
        Self("default".into())
    }
}

impl FromStr for ObjectName {
    type Err = ObjectNameError;

    fn from_str(text: &str) -> Result<Self, ObjectNameError> {
        let fits = (1..=Self::MAX_LEN).contains(&text.len());
        let known = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
        if fits && text.bytes().all(known) { Ok(Self(text.into())) } else { Err(ObjectNameError) }
    }
}

impl Borrow<str> for ObjectName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
