//! The types of the running kernel: the numbers of its functions, and the offsets of the members of
//! its structures.
//!
//! The kernel describes itself in BTF: a header, a list of types, and their names. A type's id is
//! its index in the list, from 1 on (Documentation/bpf/btf.rst).

use std::io;

const MAGIC: u16 = 0xeb9f;
const KIND_STRUCT: u32 = 4;
const KIND_UNION: u32 = 5;
const KIND_FUNC: u32 = 12;
/// Bytes of a member of a structure: its name, its type, its offset.
const MEMBER_BYTES: usize = 12;
/// Maximum nesting depth of structures without a name.
const MAX_NESTING: u32 = 8;

/// Returns the BTF id of a function of the running kernel, for [`crate::insn::call_kernel`].
///
/// # Errors
/// `NotFound` if the kernel has no such function, or does not describe itself; `InvalidData` if the
/// description is broken.
pub fn kernel_function(name: &str) -> io::Result<i32> {
    KernelTypes::read()?.function(name)
}

/// The types of the running kernel.
#[derive(Debug)]
pub struct KernelTypes {
    types: Vec<u8>,
    names: Vec<u8>,
    /// Offset in `types` of each type, in the order of their ids.
    starts: Vec<usize>,
}

/// The three words at the start of each type.
#[derive(Clone, Copy)]
struct TypeHead {
    /// Offset of the end of the head.
    end: usize,
    name: usize,
    kind: u32,
    /// Number of members.
    count: usize,
    /// Whether the offsets of members contain sizes of bit fields in their upper 8 bits.
    has_bit_fields: bool,
}

impl KernelTypes {
    /// Reads the kernel's description of itself.
    ///
    /// # Errors
    /// `NotFound` if it does not describe itself, `InvalidData` if the description is broken.
    pub fn read() -> io::Result<Self> {
        let btf = std::fs::read("/sys/kernel/btf/vmlinux")?;
        Self::parse(&btf).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    fn parse(btf: &[u8]) -> Option<Self> {
        if btf.get(..2)? != MAGIC.to_le_bytes() {
            return None;
        }
        let header = u32_at(btf, 4)? as usize;
        let area = |offset: usize, len: usize| {
            let start = header + u32_at(btf, offset)? as usize;
            btf.get(start..start + u32_at(btf, len)? as usize).map(<[u8]>::to_vec)
        };
        let (types, names) = (area(8, 12)?, area(16, 20)?);
        let (mut starts, mut at) = (Vec::new(), 0);
        while let Some(head) = TypeHead::at(&types, at) {
            starts.push(at);
            at = head.end + trailing_bytes(head.kind, head.count)?;
        }
        Some(Self { types, names, starts })
    }

    /// Returns the BTF id of a function.
    ///
    /// # Errors
    /// `NotFound` if there is no such function.
    pub fn function(&self, name: &str) -> io::Result<i32> {
        let at = self.heads().position(|head| head.kind == KIND_FUNC && self.is_named(head, name));
        at.map(|at| at as i32 + 1).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Returns the offset of a member in a structure, in bytes.
    ///
    /// # Errors
    /// `NotFound` if there is no such structure or member, or if it is a bit field.
    pub fn member_offset(&self, structure: &str, member: &str) -> io::Result<u32> {
        let mut found = self.heads().filter(|head| head.is_structure());
        let head = found.find(|head| self.is_named(*head, structure));
        head.and_then(|head| self.offset_in(head, member, MAX_NESTING))
            .ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Returns the offset in bytes of a member, which may be inside a member without a name that is
    /// a structure or a union.
    fn offset_in(&self, head: TypeHead, member: &str, nesting: u32) -> Option<u32> {
        (0..head.count).find_map(|index| {
            let at = head.end + MEMBER_BYTES * index;
            let [name, id, offset] =
                [0, 4, 8].map(|word| u32_at(&self.types, at + word).unwrap_or_default());
            let (bits, field_bits) =
                if head.has_bit_fields { (offset & 0xff_ffff, offset >> 24) } else { (offset, 0) };
            let bytes = (bits % 8 == 0 && field_bits == 0).then_some(bits / 8)?;
            if name != 0 {
                return self.spells(name as usize, member).then_some(bytes);
            }
            let start = *self.starts.get((id as usize).checked_sub(1)?)?;
            let inner = TypeHead::at(&self.types, start).filter(|inner| inner.is_structure())?;
            Some(bytes + self.offset_in(inner, member, nesting.checked_sub(1)?)?)
        })
    }

    fn heads(&self) -> impl Iterator<Item = TypeHead> + '_ {
        self.starts.iter().filter_map(|start| TypeHead::at(&self.types, *start))
    }

    fn is_named(&self, head: TypeHead, name: &str) -> bool {
        self.spells(head.name, name)
    }

    /// Whether the name at this offset is `name`.
    fn spells(&self, at: usize, name: &str) -> bool {
        self.names.get(at..).is_some_and(|spelled| {
            spelled.starts_with(name.as_bytes()) && spelled.get(name.len()) == Some(&0)
        })
    }
}

impl TypeHead {
    fn at(types: &[u8], at: usize) -> Option<Self> {
        let (name, info) = (u32_at(types, at)? as usize, u32_at(types, at + 4)?);
        Some(Self {
            end: at + 12,
            name,
            kind: info >> 24 & 0x1f,
            count: (info & 0xffff) as usize,
            has_bit_fields: info >> 31 != 0,
        })
    }

    const fn is_structure(self) -> bool {
        matches!(self.kind, KIND_STRUCT | KIND_UNION)
    }
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// Returns the number of bytes that follow a type's three common words; `None` for an unknown kind
/// of type.
fn trailing_bytes(kind: u32, count: usize) -> Option<usize> {
    Some(match kind {
        // BTF kinds INT, VAR, DECL_TAG
        1 | 14 | 17 => 4,
        // BTF kind ARRAY
        3 => 12,
        // BTF kinds DATASEC, ENUM64
        KIND_STRUCT | KIND_UNION | 15 | 19 => MEMBER_BYTES * count,
        // BTF kinds ENUM, FUNC_PROTO
        6 | 13 => 8 * count,
        // BTF kinds PTR, FWD, TYPEDEF, VOLATILE, CONST, RESTRICT, FUNC, FLOAT, TYPE_TAG
        2 | 7..=12 | 16 | 18 => 0,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns BTF data that describe an int, a structure, another structure that contains the
    /// first one without a name, and two functions.
    fn blob() -> Vec<u8> {
        let names = b"\0int\0pair\0first\0second\0outer\0";
        #[rustfmt::skip]
        let words = [
            1, 1 << 24, 4, 32, // int
            5, KIND_STRUCT << 24 | 2, 8, 10, 1, 0, 16, 1, 32, // struct pair: first, second
            23, 1 << 31 | KIND_STRUCT << 24 | 3, 12, // struct outer: int, bit field, pair
            1, 1, 0, 10, 1, 3 << 24 | 32, 0, 2, 64,
            10, KIND_FUNC << 24, 1, // first
            16, KIND_FUNC << 24, 1, // second
        ];
        let mut btf = MAGIC.to_le_bytes().to_vec();
        btf.extend([1, 0]);
        let types: Vec<u8> = words.iter().flat_map(|word: &u32| word.to_le_bytes()).collect();
        for word in [24, 0, types.len() as u32, types.len() as u32, names.len() as u32] {
            btf.extend(word.to_le_bytes());
        }
        btf.extend(types);
        btf.extend(names);
        btf
    }

    fn types() -> KernelTypes {
        KernelTypes::parse(&blob()).unwrap()
    }

    #[test]
    fn a_function_is_found_by_its_whole_name() {
        let id = |name| types().function(name).ok();
        assert_eq!(
            [id("first"), id("second"), id("sec"), id("pair")],
            [Some(4), Some(5), None, None]
        );
    }

    #[test]
    fn a_member_is_found_in_structures_without_names_and_not_in_bit_fields() {
        let offset = |structure, member| types().member_offset(structure, member).ok();
        assert_eq!(offset("pair", "second"), Some(4));
        assert_eq!(offset("outer", "int"), Some(0));
        assert_eq!(offset("outer", "second"), Some(12));
        assert_eq!(offset("outer", "first"), Some(8), "the bit field of that name is passed over");
        assert_eq!(offset("pair", "third"), None);
        assert_eq!(offset("first", "second"), None, "a function has no members");
    }

    #[test]
    fn cut_off_descriptions_are_refused() {
        let whole = blob();
        for len in 0..whole.len() {
            assert!(KernelTypes::parse(&whole[..len]).is_none(), "cut at {len}");
        }
    }

    #[test]
    fn the_running_kernel_says_where_an_interface_has_its_number() {
        match KernelTypes::read() {
            Ok(types) => assert!(types.member_offset("net_device", "ifindex").unwrap() > 0),
            Err(error) => println!("skipped: this kernel does not describe itself: {error}"),
        }
    }
}
