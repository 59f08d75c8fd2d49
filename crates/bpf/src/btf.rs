//! Finds the BTF id with which an XDP program calls a function of the running kernel.
//!
//! The kernel describes itself in BTF: a header, a list of types, and their names. A type's id is
//! its index in the list.

use std::io;

const MAGIC: u16 = 0xeb9f;
const KIND_FUNC: u32 = 12;

/// Returns the BTF id of a function of the running kernel, for [`crate::insn::call_kernel`].
///
/// # Errors
/// `NotFound` if the kernel has no such function, or does not describe itself.
pub fn kernel_function(name: &str) -> io::Result<i32> {
    let btf = std::fs::read("/sys/kernel/btf/vmlinux")?;
    function_id(&btf, name).ok_or(io::ErrorKind::NotFound.into())
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn function_id(btf: &[u8], name: &str) -> Option<i32> {
    if btf.get(..2)? != MAGIC.to_le_bytes() {
        return None;
    }
    let header = u32_at(btf, 4)? as usize;
    let area = |offset: usize, len: usize| {
        let start = header + u32_at(btf, offset)? as usize;
        btf.get(start..start + u32_at(btf, len)? as usize)
    };
    let (types, names) = (area(8, 12)?, area(16, 20)?);
    let (mut at, mut id) = (0, 1);
    while let Some(info) = u32_at(types, at + 4) {
        let (kind, count) = (info >> 24 & 0x1f, (info & 0xffff) as usize);
        let spelled = names.get(u32_at(types, at)? as usize..)?;
        let same = || spelled.starts_with(name.as_bytes()) && spelled.get(name.len()) == Some(&0);
        if kind == KIND_FUNC && same() {
            return Some(id);
        }
        at += 12 + trailing_bytes(kind, count)?;
        id += 1;
    }
    None
}

/// Returns the number of bytes that follow a type's three common words.
fn trailing_bytes(kind: u32, count: usize) -> Option<usize> {
    Some(match kind {
        // BTF kinds INT, VAR, DECL_TAG
        1 | 14 | 17 => 4,
        // BTF kind ARRAY
        3 => 12,
        // BTF kinds STRUCT, UNION, DATASEC, ENUM64
        4 | 5 | 15 | 19 => 12 * count,
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

    /// Returns BTF data that describes an int, a structure and two functions.
    fn blob() -> Vec<u8> {
        let names = b"\0int\0pair\0first\0second\0";
        let words: [u32; 3 + 1 + 3 + 6 + 3 + 3] = [
            1,
            1 << 24,
            4,
            32, // int
            5,
            4 << 24 | 2,
            8,
            0,
            1,
            0,
            0,
            1,
            32, // struct with two members
            10,
            12 << 24,
            1, // func
            16,
            12 << 24,
            1, // func
        ];
        let mut btf = MAGIC.to_le_bytes().to_vec();
        btf.extend([1, 0]);
        let types: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        for word in [24, 0, types.len() as u32, types.len() as u32, names.len() as u32] {
            btf.extend(word.to_le_bytes());
        }
        btf.extend(types);
        btf.extend(names);
        btf
    }

    #[test]
    fn a_function_is_found_by_its_whole_name() {
        assert_eq!(function_id(&blob(), "first"), Some(3));
        assert_eq!(function_id(&blob(), "second"), Some(4));
        assert_eq!(function_id(&blob(), "sec"), None);
        assert_eq!(function_id(&blob(), "pair"), None);
    }

    #[test]
    fn cut_off_descriptions_are_refused() {
        let whole = blob();
        for len in 0..whole.len() - 1 {
            assert_ne!(function_id(&whole[..len], "second"), Some(5), "cut at {len}");
            let _ = function_id(&whole[..len], "second");
        }
    }
}
