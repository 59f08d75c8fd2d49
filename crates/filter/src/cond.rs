//! Conditions: comparisons of fields with constants, and their combinations.

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::ast::{FieldSize, Relation};
use crate::layers::LayerOffsets;

/// A test of a frame, ready for code generation.
#[derive(Debug)]
pub(crate) enum Cond<'f> {
    Field(FieldTest),
    Relation(&'f Relation, LayerOffsets),
    Not(Box<Cond<'f>>),
    /// All conditions must hold. They are tested in this order. There is at least one.
    All(Vec<Cond<'f>>),
    /// At least one condition must hold. They are tested in this order. There is at least one.
    Any(Vec<Cond<'f>>),
}

/// A comparison of `field & mask` with a constant.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FieldTest {
    pub(crate) location: FieldLocation,
    pub(crate) size: FieldSize,
    pub(crate) mask: u32,
    pub(crate) compare: Compare,
    pub(crate) value: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Compare {
    Eq,
    Gt,
    Ge,
}

/// The position of a field.
#[derive(Debug, Clone, Copy)]
pub(crate) enum FieldLocation {
    /// This many bytes after the start of the frame.
    Frame(u32),
    /// `offset` bytes after the end of the IPv4 header that starts at `header`.
    AfterIpv4 { header: u32, offset: u32 },
}

impl FieldTest {
    pub(crate) fn eq(size: FieldSize, at: u32, value: u32) -> Self {
        Self::masked(size, at, u32::MAX, value)
    }

    pub(crate) fn masked(size: FieldSize, at: u32, mask: u32, value: u32) -> Self {
        Self { location: FieldLocation::Frame(at), size, mask, compare: Compare::Eq, value }
    }

    pub(crate) fn compare(self, compare: Compare) -> Self {
        Self { compare, ..self }
    }
}

pub(crate) fn byte(at: u32, value: u32) -> Cond<'static> {
    Cond::Field(FieldTest::eq(FieldSize::Byte, at, value))
}

pub(crate) fn half(at: u32, value: u32) -> Cond<'static> {
    Cond::Field(FieldTest::eq(FieldSize::Half, at, value))
}

pub(crate) fn word(at: u32, value: u32) -> Cond<'static> {
    Cond::Field(FieldTest::eq(FieldSize::Word, at, value))
}

pub(crate) fn not(cond: Cond<'_>) -> Cond<'_> {
    Cond::Not(Box::new(cond))
}
