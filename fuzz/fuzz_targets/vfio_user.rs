//! A device behind vfio-user may send anything. A record must be read as it was written, or
//! refused. A connection to such a device must result in a device or an error, without a panic and
//! without a wait.
#![no_main]

use std::io::Write;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;

use libfuzzer_sys::fuzz_target;
use slipring_pci::vfio_user::VfioUserDevice;
use slipring_pci::vfio_user::message::{
    DeviceInfo, Header, IrqInfo, RegionAccess, RegionInfo, SetIrqs, mappable_areas,
};
use slipring_pci::{PciDevice, Width};

/// Maximum length of what the device sends: it fits into the buffer of a socket.
const MAX_STREAM_BYTES: usize = 32 << 10;

macro_rules! reads_as_written {
    ($bytes:expr, $($record:ident)*) => {
        $(if let Ok((record, rest)) = $record::read($bytes) {
            let mut again = Vec::new();
            record.write(&mut again);
            assert_eq!((&again[..], rest), $bytes.split_at($record::BYTES));
        })*
    };
}

fuzz_target!(|bytes: &[u8]| {
    reads_as_written!(bytes, Header DeviceInfo RegionInfo IrqInfo SetIrqs RegionAccess);
    if let Ok(areas) = mappable_areas(bytes) {
        assert!(areas.len() <= 16);
    }
    let (client, mut server) = UnixStream::pair().unwrap();
    server.write_all(&bytes[..bytes.len().min(MAX_STREAM_BYTES)]).unwrap();
    // The device closes the connection after its last byte.
    server.shutdown(Shutdown::Write).unwrap();
    if let Ok(device) = VfioUserDevice::over(client, "fuzz") {
        let _ = device.config_read(0, Width::Long);
        if let Ok(bar) = device.bar(2) {
            let _ = bar.read32(0);
        }
    }
});
