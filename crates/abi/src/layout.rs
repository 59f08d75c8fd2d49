//! Structures with a fixed byte layout: the macro that declares them, and the trait that converts
//! them to bytes and back.
//!
//! Structures are converted field by field. This needs no `unsafe`. It is slow, but conversions are
//! needed only outside the data path. The data path maps the structures, and uses the offsets of
//! their fields.

/// A value with a fixed layout, without padding and without invalid bit patterns.
pub trait PlainData: Copy {
    /// The structure's size in bytes.
    const SIZE: usize;

    /// Writes the value to the first [`Self::SIZE`] bytes of `out`, in native byte order.
    ///
    /// # Panics
    /// If `out` is shorter than [`Self::SIZE`].
    fn write_to(&self, out: &mut [u8]);

    /// Reads a value from the first [`Self::SIZE`] bytes of `bytes`; `None` if `bytes` is shorter.
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

/// Declares `repr(C)` structures. Each is given with its size, and each field with its offset.
/// Assertions check both. All fields are public, and the default value has only zeros.
///
/// A structure does not compile if one of its fields has another offset than the number before it,
/// or if a byte belongs to no field.
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
