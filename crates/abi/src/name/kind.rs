//! The table of port kinds. It has the prefix of each kind, the form of the names after the prefix,
//! and the features of these names.
//!
//! ```text
//!   abi    KINDS: one line per kind   --> parser, printer, error texts, completion
//!   core   kinds/WORD: one folder     --> opening, privileges, doctor, help, documentation
//! ```
//! To add a kind, add a line to `port_kinds!` below, and a folder of the same name to
//! `crates/core/src/kinds`. [`for_each_port_kind`](crate::for_each_port_kind) passes the prefixes
//! to that crate. `docs/design/port-kinds.md` has an example.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::{self, Display, Formatter};

/// What a name looks like after the prefix of its kind and the colon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameForm {
    /// The name of a Linux interface.
    Interface,
    /// The name of a switch's port.
    SwitchPort,
    /// The name of a port on a netmap device. It is an interface, or a port of a switch together
    /// with its switch.
    DevicePort,
    /// A PCI address.
    PciAddress,
    /// Any text up to an `@`. Options may follow, but no rings and flags. The string describes the
    /// text in error messages.
    Text(&'static str),
    /// All text up to the end of the string. The description is for error messages.
    Rest(&'static str),
    /// No text, because the port needs no name.
    Nothing,
}

/// The empty set of features.
pub const NONE: u8 = 0;
/// Feature: the name can be the name of a pipe.
pub const PIPES: u8 = 1 << 0;
/// Feature: the interface has host rings.
pub const HOST_RINGS: u8 = 1 << 1;
/// Feature: the opener chooses the number of ring pairs (`@conf:rings=N`).
pub const RING_PAIRS: u8 = 1 << 2;
/// Feature: the port is on a netmap device, which checks the name and provides the memory.
pub const ON_DEVICE: u8 = 1 << 3;
/// Feature: the name can specify the device (`@/PATH`).
pub const DEVICE_PATH: u8 = 1 << 4;
/// Feature: the grammar knows the kind, but this version cannot open it.
pub const PLANNED: u8 = 1 << 5;

/// The grammar of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KindGrammar {
    /// The prefix of the kind, without the colon.
    pub word: &'static str,
    /// The form of the name after the colon.
    pub form: NameForm,
    /// A set of features such as [`PIPES`] and [`HOST_RINGS`].
    pub features: u8,
}

impl KindGrammar {
    /// Returns whether the kind has all of `features`.
    #[must_use]
    pub const fn has(&self, features: u8) -> bool {
        self.features & features == features
    }
}

/// Defines [`PortNameKind`] and its table. There is one line per kind: the variant, the prefix
/// (which is also the name of the folder), the form of its names, and its features.
macro_rules! port_kinds {
    ($d:tt $($kind:ident = $word:ident, $form:ident $(($what:literal))?, $features:expr;)*) => {
        /// The kind of a port. All kinds except `vale` are in one table, `port_kinds!` in
        /// `kind.rs`.
        #[derive(Clone, Debug, PartialEq, Eq, Hash)]
        pub enum PortNameKind {
            $(#[doc = concat!("`", stringify!($word), ":`")] $kind,)*
            /// `vale[ID]:`, a port of a switch.
            Vale {
                /// The id of the switch, which is the text between `vale` and the colon. It may be
                /// empty.
                switch: String,
            },
        }

        /// All kinds, in the order in which messages list them. In this list, the switch of `vale`
        /// is empty.
        pub const KINDS: &[PortNameKind] = &[$(PortNameKind::$kind,)* PortNameKind::Vale { switch: String::new() }];

        impl PortNameKind {
            /// Returns the kind's grammar.
            #[must_use]
            pub const fn grammar(&self) -> &'static KindGrammar {
                match self {
                    $(Self::$kind => &KindGrammar {
                        word: stringify!($word),
                        form: NameForm::$form $(($what))?,
                        features: $features,
                    },)*
                    Self::Vale { .. } => &KindGrammar {
                        word: "vale",
                        form: NameForm::SwitchPort,
                        features: PIPES | ON_DEVICE,
                    },
                }
            }

            /// Returns the kind whose prefix, without the colon, is `word`.
            pub(super) fn from_word(word: &str) -> Option<Self> {
                $(if word == stringify!($word) { return Some(Self::$kind); })*
                word.strip_prefix("vale").map(|switch| Self::Vale { switch: switch.into() })
            }
        }

        /// Calls the macro `callback` with the prefixes of all kinds, `vale` last. The prefixes are
        /// also the names of their folders.
        #[macro_export]
        macro_rules! for_each_port_kind {
            ($d callback:ident) => { $d callback! { $($word)* vale } };
        }
    };
}

port_kinds! { $
    Netmap      = netmap,      Interface,                    PIPES | HOST_RINGS;
    Xdp         = xdp,         Interface,                    HOST_RINGS;
    Packet      = packet,      Interface,                    HOST_RINGS;
    Tap         = tap,         Interface,                    RING_PAIRS;
    Pcap        = pcap,        Rest("the name of a file"),   NONE;
    Null        = null,        Nothing,                      RING_PAIRS;
    Kernel      = kernel,      DevicePort,                   PIPES | ON_DEVICE | DEVICE_PATH;
    Vhost       = vhost,       Text("the path of a socket"), RING_PAIRS;
    VhostClient = vhostclient, Text("the path of a socket"), RING_PAIRS;
    Vfio        = vfio,        PciAddress,                   NONE;
}

impl PortNameKind {
    /// Returns whether names of this kind have all of these features.
    #[must_use]
    pub const fn has(&self, features: u8) -> bool {
        self.grammar().has(features)
    }

    /// Returns whether ports of this kind can be pipes.
    #[must_use]
    pub const fn has_pipes(&self) -> bool {
        self.has(PIPES)
    }

    /// Returns whether the name of a port of this kind is the name of a Linux interface. Names of
    /// pipes do not count.
    #[must_use]
    pub const fn names_interface(&self) -> bool {
        matches!(self.grammar().form, NameForm::Interface)
    }
}

/// Prints the prefix with its colon.
impl Display for PortNameKind {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let switch = if let Self::Vale { switch } = self { switch } else { "" };
        write!(f, "{}{switch}:", self.grammar().word)
    }
}

/// Returns a list of the prefixes of all kinds for which `is_meant` returns true, such as `xdp:,
/// tap: and null:`. `quote` is written before and after each prefix.
#[must_use]
pub fn listed(quote: &str, is_meant: impl Fn(&KindGrammar) -> bool) -> String {
    let meant = KINDS.iter().map(PortNameKind::grammar).filter(|grammar| is_meant(grammar));
    let words: Vec<_> = meant.map(|grammar| format!("{quote}{}:{quote}", grammar.word)).collect();
    match words.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, others)) => format!("{} and {last}", others.join(", ")),
        None => String::new(),
    }
}
