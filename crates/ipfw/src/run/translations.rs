//! The instances of `nat` and `nptv6` as commands have configured them.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;

use slipring_nat::NatConfig;

use crate::rule::ObjectName;
use crate::text::Nptv6Options;

/// The `nat` and `nptv6` instances as they are configured. A copy is cheap, because the
/// configurations of `nat` instances are shared.
#[derive(Clone, Debug, Default)]
pub struct Translations {
    /// Instances of `nat`.
    pub(super) nat: BTreeMap<u16, TranslatorConfig<Arc<NatConfig>>>,
    /// Instances of `nptv6`.
    pub(super) nptv6: BTreeMap<ObjectName, TranslatorConfig<Nptv6Options>>,
    created: u64,
}

/// The configuration of a `nat` or `nptv6` instance. The `id` distinguishes the instance from
/// earlier instances with the same number or name.
#[derive(Clone, Debug)]
pub(super) struct TranslatorConfig<T> {
    pub(super) id: u64,
    pub(super) settings: T,
}

impl Translations {
    /// Creates a `nat` instance, or changes an existing one, which keeps its `id`.
    pub(super) fn configure(&mut self, number: u16, settings: NatConfig) {
        self.created += 1;
        let id = self.nat.get(&number).map_or(self.created, |made| made.id);
        self.nat.insert(number, TranslatorConfig { id, settings: Arc::new(settings) });
    }

    pub(super) fn create(&mut self, name: ObjectName, settings: Nptv6Options) {
        self.created += 1;
        self.nptv6.insert(name, TranslatorConfig { id: self.created, settings });
    }
}
