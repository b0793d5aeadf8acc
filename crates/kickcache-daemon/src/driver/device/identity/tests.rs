use std::os::unix::fs::symlink;

use super::*;

/// Block devices in a folder, as the kernel and udev show them.
struct Tree {
    folder: tempfile::TempDir,
}

impl Tree {
    fn new() -> Tree {
        let tree = Tree { folder: tempfile::tempdir().unwrap() };
        fs::create_dir_all(tree.path("sys/class/block")).unwrap();
        fs::create_dir_all(tree.path("dev/disk/by-id")).unwrap();
        tree
    }

    fn path(&self, name: &str) -> PathBuf {
        fs::canonicalize(self.folder.path()).unwrap().join(name)
    }

    fn roots(&self) -> Roots {
        Roots { sys: self.path("sys"), dev: self.path("dev") }
    }

    /// A device of 64 MiB, with files below its folder in /sys.
    fn device(&self, name: &str, files: &[(&str, &str)]) -> &Tree {
        self.at(&format!("sys/devices/{name}"), name, files)
    }

    fn partition(&self, disk: &str, number: &str, files: &[(&str, &str)]) -> &Tree {
        let name = format!("{disk}{number}");
        let files = [&[("partition", number)], files].concat();
        self.at(&format!("sys/devices/{disk}/{name}"), &name, &files)
    }

    fn at(&self, folder: &str, name: &str, files: &[(&str, &str)]) -> &Tree {
        let folder = self.path(folder);
        for (file, content) in [("size", "131072"), ("dev", name)].iter().chain(files) {
            let file = folder.join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, format!("{content}\n")).unwrap();
        }
        symlink(&folder, self.path("sys/class/block").join(name)).unwrap();
        fs::write(self.path("dev").join(name), "").unwrap();
        self
    }

    fn by_id(&self, link: &str, name: &str) -> &Tree {
        symlink(self.path("dev").join(name), self.path("dev/disk/by-id").join(link)).unwrap();
        self
    }

    fn loop_device(&self, name: &str, file: &Path, offset: &str) -> &Tree {
        let file = file.to_str().unwrap();
        self.device(name, &[("loop/backing_file", file), ("loop/offset", offset)])
    }

    fn find(&self, name: &str) -> Identified {
        PresentDevices::look(&self.roots()).at(&self.path("dev").join(name), name)
    }

    fn identity(&self, name: &str) -> String {
        let found = self.find(name);
        assert_eq!(found.strength, Strength::Strong, "{name}: {found:?}");
        found.identity
    }
}

#[test]
fn assigned_names_are_identities_and_kernel_names_are_not() {
    let tree = Tree::new();
    tree.device("dm-0", &[("dm/uuid", "LVM-abc"), ("dm/name", "vg-lv")])
        .device("md0", &[("md/uuid", "0011-2233")])
        .device("nvme0n1", &[("wwid", "eui.0025385b71b10b1c")])
        .device("nvme1n1", &[("nsid", "2"), ("device/model", "Fast  Disk "), ("device/serial", "S1   ")])
        .device("sda", &[("device/wwid", "naa.5000c500a1b2c3d4"), ("device/model", "HDD")])
        .device("sdb", &[("device/wwid", "t10.ATA     QEMU HARDDISK   QM00001 ")])
        .device(
            "sdc",
            &[("device/vendor", "ACME"), ("device/model", "Disk"), ("device/vpd_pg80", "\0\u{1}\0\u{3}S-7")],
        )
        .device("vda", &[("serial", "disk-1")])
        .partition("vda", "2", &[])
        .partition("nvme0n1", "p3", &[("partition", "3")])
        .device("mmcblk0", &[("device/cid", "15010041"), ("device/serial", "0x1")])
        .device("vdb", &[("serial", "")])
        .device("vdc", &[("serial", "00000000")]);
    let cases = [
        ("dm-0", "disk:dm-uuid:LVM-abc"),
        ("md0", "disk:md-uuid:0011-2233"),
        ("nvme0n1", "disk:wwid:eui.0025385b71b10b1c"),
        ("nvme1n1", "disk:product:Fast_Disk:S1:2"),
        ("sda", "disk:wwid:naa.5000c500a1b2c3d4"),
        ("sdb", "disk:wwid:t10.ATA_QEMU_HARDDISK_QM00001"),
        ("sdc", "disk:product:ACME:Disk:S-7"),
        ("vda", "disk:serial:disk-1"),
        ("vda2", "disk:part2:serial:disk-1"),
        ("nvme0n1p3", "disk:part3:wwid:eui.0025385b71b10b1c"),
        ("mmcblk0", "disk:mmc:15010041"),
    ];
    for (name, identity) in cases {
        assert_eq!(tree.identity(name), identity);
    }
    for name in ["vdb", "vdc"] {
        let found = tree.find(name);
        assert_eq!(found.identity, format!("block:{}", tree.path("dev").join(name).display()));
        assert_eq!(found.strength, Strength::Weak, "it has only the kernel's name");
    }
    assert_eq!(tree.find("vdb").peers, [tree.path("dev/vdc")], "the other one without a name");
}

#[test]
fn disks_that_exchange_kernel_names_keep_their_identities() {
    let (before, after) = (Tree::new(), Tree::new());
    before.device("vdb", &[("serial", "one")]).device("vdc", &[("serial", "two")]);
    after.device("vdb", &[("serial", "two")]).device("vdc", &[("serial", "one")]);
    assert_eq!(before.identity("vdb"), after.identity("vdc"));
    assert_eq!(after.find("vdb").recognises(&before.identity("vdb")), None);
}

#[test]
fn a_loop_device_is_its_file_and_its_place_there() {
    let tree = Tree::new();
    let (a, b) = (tree.path("a.img"), tree.path("b.img"));
    [&a, &b].iter().for_each(|file| fs::write(file, "x").unwrap());
    tree.loop_device("loop0", &a, "0").loop_device("loop1", &b, "0").loop_device("loop2", &a, "4096");
    tree.partition("loop1", "p1", &[("partition", "1")]);
    tree.device("vda", &[("serial", "s")]).loop_device("loop3", &tree.path("dev/vda"), "512");
    let of = |offset: u32, file: &Path| format!("disk:loop:{offset}:{}", file.display());
    let found = ["loop0", "loop1", "loop2", "loop3"].map(|name| tree.identity(name));
    assert_eq!(found, [of(0, &a), of(0, &b), of(4096, &a), "disk:loop:512:serial:s".into()]);
    let part = tree.identity("loop1p1");
    assert_eq!(part, format!("disk:part1:loop:0:{}", b.display()));
    assert_eq!([&found[2], &part].map(|identity| file_of_identity(identity)), [Some(&*a), Some(&*b)]);
    assert_eq!(file_of_identity(&found[3]), None);
    assert_eq!(file_of_identity("file:/o"), Some(Path::new("/o")));

    fs::remove_file(&a).unwrap();
    assert_eq!(tree.find("loop0").strength, Strength::Weak, "its file is gone");
}

#[test]
fn an_identity_that_two_present_devices_have_is_weak() {
    let tree = Tree::new();
    tree.device("sda", &[("device/wwid", "naa.1")]).device("sdb", &[("device/wwid", "naa.1")]);
    tree.device("sdc", &[("device/wwid", "naa.2")]);
    let found = tree.find("sda");
    assert_eq!((found.identity.as_str(), found.strength), ("disk:wwid:naa.1", Strength::Weak));
    assert_eq!(found.peers, [tree.path("dev/sdb")]);
    assert_eq!(found.recognises("disk:wwid:naa.1"), Some(Strength::Weak));
    assert_eq!(tree.identity("sdc"), "disk:wwid:naa.2");
}

#[test]
fn identities_of_older_versions_are_recognised() {
    let tree = Tree::new();
    tree.device("sda", &[("device/wwid", "naa.1")]).by_id("wwn-0x1", "sda").by_id("lvm-pv-uuid-x", "sda");
    tree.device("sdb", &[]).by_id("lvm-pv-uuid-y", "sdb");
    tree.device("sdc", &[]).by_id("usb-stick", "sdc").by_id("lvm-pv-uuid-z", "sdc");
    let (by_id, dev) = (tree.path("dev/disk/by-id"), tree.path("dev"));
    let of = |folder: &Path, name: &str| format!("block:{}", folder.join(name).display());
    let sda = tree.find("sda");
    assert_eq!(sda.recognises(&of(&by_id, "wwn-0x1")), Some(Strength::Strong));
    assert_eq!(sda.recognises(&of(&by_id, "lvm-pv-uuid-x")), Some(Strength::Weak), "clones share it");
    assert_eq!(sda.recognises(&of(&dev, "sda")), Some(Strength::Weak));
    assert_eq!(sda.recognises(&of(&dev, "sdb")), None);
    assert_eq!(sda.older_peers, [tree.path("dev/sdb")], "an older version gave it the kernel's name");
    assert_eq!((sda.identity.as_str(), sda.strength), ("disk:wwid:naa.1", Strength::Strong));

    let sdb = tree.find("sdb");
    assert_eq!((sdb.identity, sdb.strength), (of(&by_id, "lvm-pv-uuid-y"), Strength::Weak));
    assert_eq!(tree.identity("sdc"), of(&by_id, "usb-stick"));
}

#[test]
fn a_path_by_location_is_an_identity_if_named() {
    let tree = Tree::new();
    tree.device("vdb", &[]);
    let place = tree.path("dev/disk/by-path/pci-1");
    let found = tree.find("vdb").or_by_place(&tree.roots(), &place);
    assert_eq!(
        (found.identity.as_str(), found.strength),
        (&*format!("block:{}", place.display()), Strength::Strong)
    );
    let own = tree.find("vdb").identity;
    assert_eq!(found.recognises(&own), Some(Strength::Weak));
    let dev = tree.path("dev/vdb");
    assert_eq!(tree.find("vdb").or_by_place(&tree.roots(), &dev).identity, own);
}

#[test]
fn only_disks_of_one_driver_and_size_exchange_names() {
    let tree = Tree::new();
    tree.device("vdb", &[]).device("vdc", &[]).device("zram0", &[]).device("vdd", &[("size", "8")]);
    tree.device("vde", &[("size", "0")]).device("vdf", &[("hidden", "1")]).device("vdg", &[("serial", "s")]);
    assert_eq!(tree.find("vdb").peers, [tree.path("dev/vdc")]);
    let families = ["sdab", "nvme0n1", "xvda", "dm-0", "vdb", "zram1"].map(family);
    assert_eq!(families, ["sd", "nvme", "xvd", "dm", "vd", "zram"]);
}

#[test]
fn a_device_is_found_by_its_identity() {
    let tree = Tree::new();
    tree.device("vdb", &[("serial", "one")])
        .device("vdc", &[("serial", "two")])
        .device("vdd", &[("serial", "two")]);
    let present = PresentDevices::look(&tree.roots());
    let path = |identity: &str| present.only(identity).map(|device| device.path.clone());
    assert_eq!(path("disk:serial:one"), Some(tree.path("dev/vdb")));
    assert_eq!(path("disk:serial:two"), None, "two devices have it");
    assert_eq!(path("disk:serial:three"), None);
    let node = present.at(Path::new("/dev/mapper/x"), "vdb");
    assert_eq!(node.recognises("block:/dev/mapper/x"), Some(Strength::Weak), "its node has another name");
}
