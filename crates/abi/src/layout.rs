//! Structures with a fixed byte layout: the macro that declares them, and the trait that converts
//! them to bytes and back.
//!
//! Copying field by field is cheap enough (control path only) and needs no `unsafe`; the data path
//! maps the structures instead and uses their field offsets.

/// A value with a fixed layout, no padding and no invalid bit pattern.
pub trait PlainData: Copy {
    /// The structure's size in bytes.
    const SIZE: usize;

    /// Writes the value to the first [`Self::SIZE`] bytes of `out`, in native byte order.
    ///
    /// # Panics
    /// If `out` is shorter than [`Self::SIZE`].
    fn write_to(&self, out: &mut [u8]);

    /// Reads a value from the first [`Self::SIZE`] bytes of `bytes`, or `None` if `bytes` is
    /// shorter.
    fn read_from(bytes: &[u8]) -> Option<Self>;
}

macro_rules! plain_integers {
    ($($int:ty)*) => {$(
        impl PlainData for $int {
            const SIZE: usize = size_of::<$int>();

            fn write_to(&self, out: &mut [u8]) {
                out[..Self::SIZE].copy_from_slice(&self.to_ne_bytes());
            }

            fn read_from(bytes: &[u8]) -> Option<Self> {
                bytes.first_chunk().copied().map(Self::from_ne_bytes)
            }
        }
    )*};
}
plain_integers!(u8 u16 u32 u64 i32 i64);

impl<T: PlainData + Default, const N: usize> PlainData for [T; N] {
    const SIZE: usize = N * T::SIZE;

    fn write_to(&self, out: &mut [u8]) {
        for (i, item) in self.iter().enumerate() {
            item.write_to(&mut out[i * T::SIZE..]);
        }
    }

    fn read_from(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.get(..Self::SIZE)?;
        let mut items = [T::default(); N];
        for (i, item) in items.iter_mut().enumerate() {
            *item = T::read_from(&bytes[i * T::SIZE..])?;
        }
        Some(items)
    }
}

/// Declares `repr(C)` structures with the size of each and the offset of every field, both checked
/// by assertions. All fields are public, and the default is all zeros.
///
/// If a field has another offset than the number before it, or a byte belongs to no field, the
/// structure does not compile.
macro_rules! abi_structs {
    ($(
        $(#[$meta:meta])*
        struct $name:ident: $size:literal {
            $( $(#[$field_meta:meta])* $offset:literal: $field:ident: $type:ty, )*
        }
    )*) => {$(
        $(#[$meta])*
        #[repr(C)]
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $name {
            $( $(#[$field_meta])* pub $field: $type, )*
        }

        const _: () = {
            $( assert!(core::mem::offset_of!($name, $field) == $offset); )*
            assert!(size_of::<$name>() == $size);
            assert!(0 $( + <$type as $crate::PlainData>::SIZE )* == $size, "implicit padding");
        };

        impl Default for $name {
            fn default() -> Self {
                const ZEROS: [u8; $size] = [0; $size];
                $crate::PlainData::read_from(&ZEROS)
                    .expect("exactly as many bytes as the structure has")
            }
        }

        impl $crate::PlainData for $name {
            const SIZE: usize = $size;

            fn write_to(&self, out: &mut [u8]) {
                $( self.$field.write_to(&mut out[$offset..]); )*
            }

            fn read_from(bytes: &[u8]) -> Option<Self> {
                Some(Self { $( $field: $crate::PlainData::read_from(bytes.get($offset..)?)?, )* })
            }
        }
    )*};
}
pub(crate) use abi_structs;
