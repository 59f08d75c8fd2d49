//! Where the maps are: in the kernel, or, for tests, in the memory of this process.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;

use slipring_bpf::{
    BpfCode, BpfError, BpfMap, BpfMapKind, BpfMapSpec, BpfProgram, BpfProgramFlags, BpfProgramKind,
    MappedArray,
};

use crate::layout::{BpfLimits, map};

/// Creates the maps that [`TableWriter`](crate::writer::TableWriter) fills.
pub(crate) trait MapHost: Debug + Send {
    /// A table of one VRF.
    type Table: Debug + Send;

    /// Creates the array `name`, whose single value is for all VRFs.
    fn array(&mut self, name: &'static str, spec: BpfMapSpec)
    -> Result<Arc<MappedArray>, BpfError>;

    /// Creates a table of zeros for the array of tables `name`, without adding it to the array.
    fn table(
        &mut self,
        name: &'static str,
        spec: BpfMapSpec,
    ) -> Result<(Self::Table, Arc<MappedArray>), BpfError>;

    /// Makes programs use `table` as the table `name` of a VRF. When this returns, no program uses
    /// the previous table.
    fn publish(&mut self, name: &'static str, vrf: u16, table: &Self::Table) -> io::Result<()>;

    /// Waits until all programs that run now have ended.
    fn quiesce(&mut self) -> io::Result<()>;

    /// Sets the interface to which frames for a port are redirected.
    fn set_egress(&mut self, port: u16, ifindex: u32) -> io::Result<()>;
}

/// Maps in the kernel.
#[derive(Debug)]
pub(crate) struct KernelMaps {
    arrays: BTreeMap<&'static str, BpfMap>,
    /// Arrays of the VRFs' tables. The first table of each array is the template of the others.
    tables: BTreeMap<&'static str, BpfMap>,
    vrfs: u16,
    barrier: Barrier,
    /// Total size of the arrays and tables created so far, in bytes.
    pub(crate) bytes: u64,
}

impl KernelMaps {
    pub(crate) fn create(limits: &BpfLimits) -> Result<Self, BpfError> {
        let mut maps = Self {
            arrays: BTreeMap::new(),
            tables: BTreeMap::new(),
            vrfs: limits.vrfs,
            barrier: Barrier::create()?,
            bytes: 0,
        };
        for (name, spec) in [(map::COUNTERS, limits.counters()), (map::EGRESS, limits.egress())] {
            maps.arrays.insert(name, BpfMap::create(&kernel_name(name), spec)?);
        }
        Ok(maps)
    }

    /// Returns the counters of a port: those of all CPUs, one after the other.
    pub(crate) fn counters(&self, port: u16) -> io::Result<Vec<u8>> {
        let value = self.arrays[map::COUNTERS].lookup(&u32::from(port).to_ne_bytes())?;
        value.ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Returns the map of the interfaces to redirect to, by port.
    pub(crate) fn egress(&self) -> &BpfMap {
        &self.arrays[map::EGRESS]
    }

    /// Loads an XDP program for any interface, or, if the program calls a driver's function, for
    /// the interface of that driver. `sockets` is the map of the interface's sockets, if the
    /// program uses it.
    pub(crate) fn load(
        &self,
        code: &BpfCode,
        bound_to: Option<u32>,
        sockets: Option<&BpfMap>,
    ) -> Result<BpfProgram, BpfError> {
        let flags = BpfProgramFlags { frags: true, bound_to };
        self.load_as(BpfProgramKind::Xdp, code, flags, sockets)
    }

    /// Loads a program for socket buffers.
    pub(crate) fn load_for_skb(
        &self,
        kind: BpfProgramKind,
        code: &BpfCode,
    ) -> Result<BpfProgram, BpfError> {
        self.load_as(kind, code, BpfProgramFlags::default(), None)
    }

    fn load_as(
        &self,
        kind: BpfProgramKind,
        code: &BpfCode,
        flags: BpfProgramFlags,
        sockets: Option<&BpfMap>,
    ) -> Result<BpfProgram, BpfError> {
        let find = |name: &str| match name {
            map::SOCKETS => sockets,
            name => self.arrays.get(name).or_else(|| self.tables.get(name)),
        };
        let insns = code.bind(|name| find(name).map(BpfMap::raw_fd));
        let insns = insns.expect("all maps of the program exist");
        BpfProgram::load(kind, "slipring_route", &insns, flags)
    }

    fn make(
        &mut self,
        name: &str,
        spec: BpfMapSpec,
    ) -> Result<(BpfMap, Arc<MappedArray>), BpfError> {
        let map = BpfMap::create(&kernel_name(name), spec)?;
        let mapped = map.map_values();
        let mapped =
            mapped.map_err(|source| BpfError::System { what: "map a BPF array", source })?;
        self.bytes += u64::from(spec.value_size) * u64::from(spec.max_entries);
        Ok((map, Arc::new(mapped)))
    }
}

/// Waits for running programs to end. It updates an array of maps: the kernel then waits for all
/// programs that may use the previous map before the system call returns.
#[derive(Debug)]
struct Barrier {
    outer: BpfMap,
    inner: BpfMap,
}

impl Barrier {
    fn create() -> Result<Self, BpfError> {
        let inner = BpfMap::create("slip_barrier", BpfMapSpec::new(BpfMapKind::Array, 4, 4, 1))?;
        Ok(Self { outer: BpfMap::create_of_maps("slip_barrier", 1, &inner)?, inner })
    }

    fn wait(&self) -> io::Result<()> {
        self.outer.set_descriptor(0, self.inner.as_fd())
    }
}

/// Returns the name under which the kernel lists a map.
fn kernel_name(name: &str) -> String {
    format!("slip_{name}")
}

impl MapHost for KernelMaps {
    type Table = BpfMap;

    fn array(
        &mut self,
        name: &'static str,
        spec: BpfMapSpec,
    ) -> Result<Arc<MappedArray>, BpfError> {
        let (map, mapped) = self.make(name, spec)?;
        self.arrays.insert(name, map);
        Ok(mapped)
    }

    fn table(
        &mut self,
        name: &'static str,
        spec: BpfMapSpec,
    ) -> Result<(BpfMap, Arc<MappedArray>), BpfError> {
        let (table, mapped) = self.make(name, spec)?;
        if !self.tables.contains_key(name) {
            let outer = BpfMap::create_of_maps(&kernel_name(name), self.vrfs.into(), &table)?;
            self.tables.insert(name, outer);
        }
        Ok((table, mapped))
    }

    fn publish(&mut self, name: &'static str, vrf: u16, table: &BpfMap) -> io::Result<()> {
        // After changing an array of maps, the kernel waits until running programs have ended.
        self.tables[name].set_descriptor(vrf.into(), table.as_fd())
    }

    fn quiesce(&mut self) -> io::Result<()> {
        self.barrier.wait()
    }

    fn set_egress(&mut self, port: u16, ifindex: u32) -> io::Result<()> {
        self.arrays[map::EGRESS].set_number(port.into(), ifindex)
    }
}
