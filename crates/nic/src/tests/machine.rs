//! A simulated machine: a tree of files, and a kernel that reacts to writes to them.

use std::cell::{Cell, RefCell};
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

use slipring_drivers::{CardStatus, LinkState, SettingRefusal, SettingsRequest};
use slipring_port::netlink::{LinkSnapshot, NetlinkLink, SavedSetting};

use crate::host::{LinkChange, NicHost};
use crate::state::StateDir;
use crate::sysfs::{self, VFIO_DRIVER, device_dir, driver_dir};

pub(crate) const MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];

/// A link with its addresses and routes as texts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MadeUpLink {
    pub(crate) link: NetlinkLink,
    pub(crate) addresses: Vec<String>,
    pub(crate) routes: Vec<String>,
}

/// What other processes do to a machine.
pub(crate) type Meanwhile = Box<dyn FnOnce(&MadeUpHost)>;

/// The simulated machine.
pub(crate) struct MadeUpHost {
    dir: tempfile::TempDir,
    pub(crate) privileged: bool,
    pub(crate) memory_lock: Option<u64>,
    pub(crate) registers: Vec<u8>,
    pub(crate) zero_copy: Option<bool>,
    pub(crate) links: RefCell<Vec<MadeUpLink>>,
    /// Number of changes that still succeed before one fails; `None` if all succeed.
    pub(crate) changes_left: Cell<Option<usize>>,
    /// The routes that the kernel refuses to add.
    pub(crate) refused_routes: RefCell<Vec<String>>,
    /// Whether the kernel accepts the routes in `refused_routes` once a link has a default route.
    pub(crate) accepted_after_default: Cell<bool>,
    pub(crate) timers: RefCell<Vec<String>>,
    /// The nodes that were given to users: name, user.
    pub(crate) owners: RefCell<Vec<(String, u32)>>,
    pub(crate) ended: RefCell<Vec<u32>>,
    /// The next answer of the program that has a card open. With `None`, the program answers that
    /// it has changed the settings.
    pub(crate) answer: RefCell<Option<io::Result<Result<CardStatus, SettingRefusal>>>>,
    /// The requests to programs so far: process, card, text of the request.
    pub(crate) asked: RefCell<Vec<(u32, String, String)>>,
    clock: Cell<Duration>,
    /// What other processes do during the next sleep.
    pub(crate) meanwhile: RefCell<Option<Meanwhile>>,
    next_index: Cell<u32>,
    /// The name that the kernel gives to new interfaces.
    pub(crate) new_name: RefCell<String>,
    /// Whether the module of the cards' driver is not loaded.
    pub(crate) lacks_module: Cell<bool>,
}

impl MadeUpHost {
    /// Makes a machine with an IOMMU, VFIO, and a card `eth1`, which nothing uses.
    pub(crate) fn new() -> Self {
        let host = Self {
            dir: tempfile::tempdir().unwrap(),
            privileged: true,
            memory_lock: None,
            registers: Vec::new(),
            zero_copy: Some(false),
            links: RefCell::default(),
            changes_left: Cell::new(None),
            refused_routes: RefCell::default(),
            accepted_after_default: Cell::default(),
            timers: RefCell::default(),
            owners: RefCell::default(),
            ended: RefCell::default(),
            answer: RefCell::default(),
            asked: RefCell::default(),
            clock: Cell::new(Duration::from_secs(100)),
            meanwhile: RefCell::default(),
            next_index: Cell::new(2),
            new_name: RefCell::new("eth1".into()),
            lacks_module: Cell::new(false),
        };
        for dir in [
            "sys/bus/pci/drivers/vfio-pci",
            "sys/class/iommu/dmar0",
            "sys/class/net",
            "sys/module/vfio_iommu_type1/parameters",
            "proc/sys/kernel/random",
            "proc/thread-self/net",
            "dev/vfio",
        ] {
            fs::create_dir_all(host.path(dir)).unwrap();
        }
        host.put("proc/sys/kernel/random/boot_id", "boot-1\n");
        host.put("proc/interrupts", " 24: 1 IR-PCI-MSI 0-edge eth1\n");
        host.put("sys/bus/pci/drivers_probe", "");
        host.put(
            "etc/passwd",
            "root:x:0:0::/root:/bin/sh\nalice:x:1000:1000::/home/alice:/bin/sh\n",
        );
        host.add_card("0000:03:00.0", [0x8086, 0x10d3], "e1000e", 7);
        host.make_interface("0000:03:00.0", "eth1");
        host
    }

    pub(crate) fn path(&self, below: &str) -> PathBuf {
        self.dir.path().join(below)
    }

    pub(crate) fn put(&self, below: &str, text: &str) {
        let path = self.path(below);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub(crate) fn state(&self) -> StateDir {
        StateDir::below(&self.path("run"))
    }

    /// Adds a card without an interface.
    pub(crate) fn add_card(&self, bdf: &str, [vendor, device]: [u16; 2], driver: &str, group: u32) {
        let dir = format!("sys/bus/pci/devices/{bdf}");
        self.put(&format!("{dir}/vendor"), &format!("0x{vendor:04x}\n"));
        self.put(&format!("{dir}/device"), &format!("0x{device:04x}\n"));
        self.put(&format!("{dir}/class"), "0x020000\n");
        self.put(&format!("{dir}/driver_override"), "(null)\n");
        let group_dir = self.path(&format!("sys/kernel/iommu_groups/{group}/devices"));
        fs::create_dir_all(group_dir.join(bdf)).unwrap();
        symlink(group_dir.parent().unwrap(), self.path(&dir).join("iommu_group")).unwrap();
        let driver = driver_dir(self.root(), driver);
        fs::create_dir_all(&driver).unwrap();
        fs::write(driver.join("unbind"), "").unwrap();
        fs::write(driver_dir(self.root(), VFIO_DRIVER).join("unbind"), "").unwrap();
        symlink(&driver, self.path(&dir).join("driver")).unwrap();
        let bus = self.path("sys/bus/pci");
        symlink(bus, self.path(&dir).join("subsystem")).unwrap();
        self.put(&format!("dev/vfio/{group}"), "");
    }

    /// Makes the interface of a card. It is down and has no IP address.
    pub(crate) fn make_interface(&self, bdf: &str, name: &str) -> u32 {
        let device = device_dir(self.root(), bdf);
        fs::create_dir_all(device.join("net").join(name)).unwrap();
        symlink(&device, device.join("net").join(name).join("device")).unwrap();
        let _ = symlink(device.join("net").join(name), self.path("sys/class/net").join(name));
        let index = self.add_link(name, "", MAC);
        fs::write(device.join("net").join(name).join("ifindex"), format!("{index}\n")).unwrap();
        index
    }

    pub(crate) fn add_link(&self, name: &str, kind: &str, mac: [u8; 6]) -> u32 {
        let index = self.next_index.replace(self.next_index.get() + 1);
        if self.path("proc/sys/net/ipv4/conf/default").exists() {
            let [rp_filter, accept_ra] = self.sysctls("default");
            self.put_sysctls(name, [&rp_filter, &accept_ra]);
        }
        self.links.borrow_mut().push(MadeUpLink {
            link: NetlinkLink {
                index,
                name: name.into(),
                up: false,
                mtu: 1500,
                kind: kind.into(),
                running: false,
                mac: mac.to_vec(),
                master: None,
                lower: None,
                alias: String::new(),
            },
            addresses: Vec::new(),
            routes: Vec::new(),
        });
        index
    }

    /// Sets `rp_filter` and `accept_ra` of an interface; `default` is for new interfaces.
    pub(crate) fn put_sysctls(&self, interface: &str, [rp_filter, accept_ra]: [&str; 2]) {
        self.put(&format!("proc/sys/net/ipv4/conf/{interface}/rp_filter"), rp_filter);
        self.put(&format!("proc/sys/net/ipv6/conf/{interface}/accept_ra"), accept_ra);
        self.put(&format!("proc/sys/net/ipv6/conf/{interface}/mtu"), interface);
    }

    /// Returns the settings of [`Self::put_sysctls`].
    pub(crate) fn sysctls(&self, interface: &str) -> [String; 2] {
        ["ipv4/conf/IF/rp_filter", "ipv6/conf/IF/accept_ra"].map(|path| {
            let path = format!("proc/sys/net/{}", path.replace("IF", interface));
            sysfs::read(&self.path(&path)).unwrap()
        })
    }

    /// Changes the link of this name.
    pub(crate) fn edit(&self, name: &str, edit: impl FnOnce(&mut MadeUpLink)) {
        let mut links = self.links.borrow_mut();
        edit(links.iter_mut().find(|link| link.link.name == name).unwrap());
    }

    /// Returns a link without its index, which may change.
    pub(crate) fn link(&self, name: &str) -> Option<MadeUpLink> {
        let links = self.links.borrow();
        let mut found = links.iter().find(|link| link.link.name == name)?.clone();
        found.link.index = 0;
        Some(found)
    }

    /// Renames the directory of an interface, and the link to it. Only the interface of a card has
    /// them.
    fn rename_in_sysfs(&self, from: &str, to: &str) {
        let [link, new] = [from, to].map(|name| self.path("sys/class/net").join(name));
        let Ok(dir) = fs::read_link(&link) else { return };
        fs::rename(&dir, dir.with_file_name(to)).unwrap();
        fs::remove_file(link).unwrap();
        symlink(dir.with_file_name(to), new).unwrap();
    }

    fn count_change(&self) -> io::Result<()> {
        match self.changes_left.get() {
            Some(0) => {
                // Only this change fails, so that the restore that follows can succeed.
                self.changes_left.set(None);
                Err(io::Error::other("made to fail"))
            }
            Some(left) => {
                self.changes_left.set(Some(left - 1));
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn unbind(&self, bdf: &str) {
        let dir = device_dir(self.root(), bdf);
        for name in sysfs::interfaces_of(self.root(), bdf) {
            self.links.borrow_mut().retain(|link| link.link.name != name);
            let _ = fs::remove_file(self.path("sys/class/net").join(&name));
        }
        let _ = fs::remove_dir_all(dir.join("net"));
        fs::remove_file(dir.join("driver")).unwrap();
    }

    fn probe(&self, bdf: &str) {
        let dir = device_dir(self.root(), bdf);
        let wanted = sysfs::override_of(self.root(), bdf);
        let driver = wanted.unwrap_or_else(|| "e1000e".into());
        if driver != VFIO_DRIVER && self.lacks_module.get() {
            return;
        }
        symlink(driver_dir(self.root(), &driver), dir.join("driver")).unwrap();
        if driver != VFIO_DRIVER {
            let name = self.new_name.borrow().clone();
            self.make_interface(bdf, &name);
        }
    }

    fn apply(&self, path: &Path, text: &str) {
        let name = path.file_name().unwrap().to_str().unwrap();
        match name {
            "driver_override" => {
                let text = if text == "\n" { "(null)\n" } else { text };
                fs::write(path, text).unwrap();
            }
            "unbind" => self.unbind(text),
            "drivers_probe" => self.probe(text),
            _ if path.starts_with(self.path("proc/sys/net")) => fs::write(path, text).unwrap(),
            other => panic!("no code writes to {other}"),
        }
    }
}

impl NicHost for MadeUpHost {
    fn root(&self) -> &Path {
        self.dir.path()
    }

    fn is_privileged(&self) -> bool {
        self.privileged
    }

    fn memory_lock(&self) -> Option<u64> {
        self.memory_lock
    }

    fn write(&self, path: &Path, text: &str) -> io::Result<()> {
        self.count_change()?;
        assert!(path.exists(), "{}", path.display());
        self.apply(path, text);
        Ok(())
    }

    fn chown(&self, path: &Path, uid: u32) -> io::Result<()> {
        self.count_change()?;
        fs::metadata(path)?;
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        self.owners.borrow_mut().push((name, uid));
        Ok(())
    }

    fn links(&self) -> io::Result<Vec<NetlinkLink>> {
        Ok(self.links.borrow().iter().map(|link| link.link.clone()).collect())
    }

    fn snapshot(&self, index: u32) -> io::Result<LinkSnapshot> {
        let links = self.links.borrow();
        let link = links.iter().find(|link| link.link.index == index).unwrap();
        let saved = |texts: &[String]| {
            let one = |text: &String| SavedSetting {
                text: text.clone(),
                message: text.clone().into_bytes(),
            };
            texts.iter().map(one).collect()
        };
        Ok(LinkSnapshot {
            addresses: saved(&link.addresses),
            routes: saved(&link.routes),
            has_default_route: link.routes.iter().any(|route| route.starts_with("default")),
        })
    }

    fn has_zero_copy(&self, _: u32) -> Option<bool> {
        self.zero_copy
    }

    fn change_link(&self, index: u32, change: &LinkChange<'_>) -> io::Result<()> {
        self.count_change()?;
        if !self.privileged {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let mut links = self.links.borrow_mut();
        if matches!(change, LinkChange::Delete) {
            links.retain(|link| link.link.index != index);
            return Ok(());
        }
        let link = links.iter_mut().find(|link| link.link.index == index).unwrap();
        let text = |saved: &SavedSetting| String::from_utf8(saved.message.clone()).unwrap();
        match *change {
            LinkChange::Up => link.link.up = true,
            LinkChange::Down => {
                link.link.up = false;
                link.routes.clear();
            }
            LinkChange::Delete => unreachable!("handled above"),
            LinkChange::Name(name) => {
                self.rename_in_sysfs(&link.link.name, name);
                link.link.name = name.into();
            }
            LinkChange::Mac(mac) => link.link.mac = mac.to_vec(),
            LinkChange::Mtu(mtu) => link.link.mtu = mtu,
            LinkChange::Alias(alias) => link.link.alias = alias.into(),
            LinkChange::Master(master) => link.link.master = Some(master),
            LinkChange::Address(address) => {
                let text = text(address);
                if !link.addresses.contains(&text) {
                    link.addresses.push(text);
                }
            }
            LinkChange::Route(route) => {
                assert!(link.link.up, "a route needs an interface that is up");
                let is_default = |route: &String| route.starts_with("default");
                let can_pass =
                    self.accepted_after_default.get() && link.routes.iter().any(is_default);
                if !can_pass {
                    self.check_route(index, route)?;
                }
                let text = text(route);
                if !link.routes.contains(&text) {
                    link.routes.push(text);
                }
            }
        }
        Ok(())
    }

    fn check_route(&self, _: u32, route: &SavedSetting) -> io::Result<()> {
        match self.refused_routes.borrow().contains(&route.text) {
            true => Err(io::ErrorKind::NetworkUnreachable.into()),
            false => Ok(()),
        }
    }

    fn create_tap(&self, name: &str) -> io::Result<u32> {
        self.count_change()?;
        assert!(self.link(name).is_none(), "the name must be free");
        Ok(self.add_link(name, "tun", [6; 6]))
    }

    fn registers(&self, _: &str) -> io::Result<Vec<u8>> {
        match self.registers.is_empty() {
            true => Err(io::ErrorKind::Unsupported.into()),
            false => Ok(self.registers.clone()),
        }
    }

    fn start_timer(&self, bdf: &str) -> io::Result<()> {
        self.count_change()?;
        self.timers.borrow_mut().push(bdf.to_owned());
        Ok(())
    }

    fn end_process(&self, pid: u32, kill: bool) -> io::Result<()> {
        // TERM has no effect, because the process ignores it.
        if kill {
            fs::remove_dir_all(self.path(&format!("proc/{pid}"))).unwrap();
        }
        self.ended.borrow_mut().push(pid);
        Ok(())
    }

    fn ask_card(
        &self,
        pid: u32,
        bdf: &str,
        request: &SettingsRequest,
    ) -> io::Result<Result<CardStatus, SettingRefusal>> {
        self.asked.borrow_mut().push((pid, bdf.to_owned(), request.to_string()));
        let done = CardStatus { settings: request.change, link: LinkState::DOWN };
        self.answer.borrow_mut().take().unwrap_or(Ok(Ok(done)))
    }

    fn uptime(&self) -> Duration {
        self.clock.get()
    }

    fn pause(&self, time: Duration) {
        self.clock.set(self.clock.get() + time);
        let meanwhile = self.meanwhile.take();
        if let Some(act) = meanwhile {
            act(self);
        }
    }
}
