//! Descriptions of devices: a TOML file with a name, perhaps a processor time, and one table, named after the kind of
//! device.

use serde::{Deserialize, Serialize};

use crate::device_model::cloud::{Cloud, CloudParameters};
use crate::device_model::disk::Disk;
use crate::device_model::disk::parameters::DiskParameters;
use crate::device_model::mirror::Mirror;
use crate::device_model::remote::{Remote, RemoteParameters};
use crate::device_model::ssd::{Ssd, SsdParameters};
use crate::device_model::{DeviceModel, Range};

const BUILT_IN: [(&str, &str); 8] = [
    ("mirrored-5400", include_str!("../../devices/mirrored-5400.toml")),
    ("disk-7200", include_str!("../../devices/disk-7200.toml")),
    ("article-ssd", include_str!("../../devices/article-ssd.toml")),
    ("cloud-slow", include_str!("../../devices/cloud-slow.toml")),
    ("cloud-fast-20g", include_str!("../../devices/cloud-fast-20g.toml")),
    ("cloud-fast-80g", include_str!("../../devices/cloud-fast-80g.toml")),
    ("network-disk", include_str!("../../devices/network-disk.toml")),
    ("object-store", include_str!("../../devices/object-store.toml")),
];

/// The most microseconds of processor time that a file may give for an access.
const ACCESS_COST_MAX: f64 = 1e6;

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct File {
    name: String,
    #[serde(rename = "access_cost", skip_serializing_if = "Option::is_none")]
    access_cost: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    disk: Option<DiskParameters>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mirror: Option<DiskParameters>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ssd: Option<SsdParameters>,
    #[serde(skip_serializing_if = "Option::is_none")]
    capped: Option<CloudParameters>,
    #[serde(skip_serializing_if = "Option::is_none")]
    remote: Option<RemoteParameters>,
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub enum DeviceKind {
    Disk(DiskParameters),
    /// Two equal rotating disks with the same data.
    Mirror(DiskParameters),
    Ssd(SsdParameters),
    Capped(CloudParameters),
    Remote(RemoteParameters),
}

#[derive(Clone, PartialEq, Debug)]
pub struct DeviceFile {
    pub name: String,
    /// Processor time that an access cost the measuring program, in microseconds, if it was measured.
    pub access_cost: Option<f64>,
    pub kind: DeviceKind,
}

impl DeviceFile {
    /// # Errors
    /// A sentence that names the defect.
    pub fn parse(text: &str) -> Result<DeviceFile, String> {
        let file: File = toml::from_str(text).map_err(|error| sentence(&error, text))?;
        let kinds = [
            file.disk.map(DeviceKind::Disk),
            file.mirror.map(DeviceKind::Mirror),
            file.ssd.map(DeviceKind::Ssd),
            file.capped.map(DeviceKind::Capped),
            file.remote.map(DeviceKind::Remote),
        ];
        let mut found = kinds.into_iter().flatten();
        match (found.next(), found.next()) {
            (Some(kind), None) => {
                kind.check()?;
                if let Some(cost) = file.access_cost {
                    Range::UpTo(ACCESS_COST_MAX).check("access_cost", cost)?;
                }
                Ok(DeviceFile { name: file.name, access_cost: file.access_cost, kind })
            }
            (None, _) => {
                Err("it has none of the tables [disk], [mirror], [ssd], [capped] and [remote]; write one"
                    .into())
            }
            (Some(_), Some(_)) => Err("it has more than one table; a device is one thing, keep one".into()),
        }
    }

    /// # Panics
    /// Never: numbers and names can be written.
    pub fn text(&self) -> String {
        let (name, access_cost) = (self.name.clone(), self.access_cost);
        let mut file =
            File { name, access_cost, disk: None, mirror: None, ssd: None, capped: None, remote: None };
        match self.kind {
            DeviceKind::Disk(parameters) => file.disk = Some(parameters),
            DeviceKind::Mirror(parameters) => file.mirror = Some(parameters),
            DeviceKind::Ssd(parameters) => file.ssd = Some(parameters),
            DeviceKind::Capped(parameters) => file.capped = Some(parameters),
            DeviceKind::Remote(parameters) => file.remote = Some(parameters),
        }
        toml::to_string(&file).expect("numbers and names can be written")
    }

    pub fn start(&self, seed: u64) -> Box<dyn DeviceModel> {
        match self.kind {
            DeviceKind::Disk(parameters) => Box::new(Disk::new(parameters, seed)),
            DeviceKind::Mirror(parameters) => Box::new(Mirror::new(parameters, seed)),
            DeviceKind::Ssd(parameters) => Box::new(Ssd::new(parameters, seed)),
            DeviceKind::Capped(parameters) => Box::new(Cloud::new(parameters, seed)),
            DeviceKind::Remote(parameters) => Box::new(Remote::new(parameters, seed)),
        }
    }
}

fn sentence(error: &toml::de::Error, text: &str) -> String {
    let mut message = error.message().trim().replace('\n', "; ");
    if message.starts_with("unknown field `stall_") {
        message = "an older kickcache wrote this file: stall_permille and stall_mean are tail_permille and tail_time now; calibrate the device \
                   again, or leave the two out".into();
    }
    if message.starts_with("unknown field `tail_factor`") && message.contains("`tail_time`") {
        message = "an older kickcache wrote this file: tail_factor of an SSD is tail_time now, microseconds that are added; calibrate the device \
                   again, or write that".into();
    }
    match error.span().and_then(|span| text.get(..span.start)) {
        Some(before) if !before.is_empty() => {
            format!("line {}: {message}", before.matches('\n').count() + 1)
        }
        Some(_) | None => message,
    }
}

impl DeviceKind {
    fn check(&self) -> Result<(), String> {
        let figures = match self {
            DeviceKind::Disk(disk) | DeviceKind::Mirror(disk) => disk.figures(),
            DeviceKind::Ssd(ssd) => ssd.figures(),
            DeviceKind::Capped(cloud) => cloud.figures(),
            DeviceKind::Remote(remote) => remote.figures(),
        };
        figures.iter().try_for_each(|(name, value, range)| range.check(name, *value))
    }
}

pub fn built_in(name: &str) -> Option<DeviceFile> {
    let text = BUILT_IN.iter().find(|device| device.0 == name)?.1;
    Some(DeviceFile::parse(text).expect("a test reads every file"))
}

pub fn built_in_names() -> impl Iterator<Item = &'static str> {
    BUILT_IN.iter().map(|device| device.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_file_version_is_distinguished_from_a_mistake() {
        let error = DeviceFile::parse("name = \"x\"\n[ssd]\nstall_permille = 0\n").unwrap_err();
        assert!(error.starts_with("line 3: an older kickcache wrote this file"), "{error}");
        let error =
            DeviceFile::parse("name = \"x\"\n[ssd]\ntail_permille = 25\ntail_factor = 3.5\n").unwrap_err();
        assert!(error.starts_with("line 4: an older kickcache wrote this file"), "{error}");
    }

    #[test]
    fn every_built_in_device_can_be_read_and_written() {
        for name in built_in_names() {
            let device = built_in(name).unwrap();
            assert_eq!(DeviceFile::parse(&device.text()).unwrap(), device, "{name}");
        }
    }

    #[test]
    fn files_agree_with_the_parameters_in_the_code() {
        let kind = |name| built_in(name).unwrap().kind;
        assert_eq!(kind("mirrored-5400"), DeviceKind::Mirror(DiskParameters::rpm_5400()));
        assert_eq!(kind("disk-7200"), DeviceKind::Disk(DiskParameters::rpm_7200()));
        assert_eq!(kind("article-ssd"), DeviceKind::Ssd(SsdParameters::articles()));
    }

    #[test]
    fn a_missing_kind_or_a_wrong_word_is_refused() {
        let sentence = DeviceFile::parse("name = 'x'").unwrap_err();
        assert!(sentence.contains("none of the tables"), "{sentence}");
        let sentence = DeviceFile::parse("name = 'x'\n[ssd]\nspeed = 3").unwrap_err();
        assert!(sentence.starts_with("line 3: ") && sentence.contains("speed"), "{sentence}");
        assert!(!sentence.contains('\n'), "{sentence}");
    }

    #[test]
    fn missing_keys_have_the_textbook_values() {
        let device = DeviceFile::parse("name = 'x'\n[disk]\nrpm = 15000").unwrap();
        let textbook = DiskParameters::rpm_7200();
        assert_eq!(device.kind, DeviceKind::Disk(DiskParameters { rpm: 15_000.0, ..textbook }));
        let device = DeviceFile::parse("name = 'x'\n[capped]\niops = 500.0\nbandwidth = 1e8").unwrap();
        assert!(matches!(device.kind, DeviceKind::Capped(cloud) if cloud.slice > 0.0));
    }

    #[test]
    fn figures_that_no_device_has_are_refused() {
        let tables = [
            "[disk]\nrpm = 0",
            "[disk]\nrpm = -7200",
            "[disk]\nheads = 0",
            "[disk]\ntrack_bytes = 0",
            "[disk]\nhit = [5.0, 1.0]",
            "[mirror]\nblocked_permille = 2000",
            "[ssd]\nbandwidth = 0",
            "[ssd]\nread_median = nan",
            "[ssd]\nsigma = inf",
            "[ssd]\ndies = 4294967295",
            "[capped]\niops = 0\nbandwidth = 1e8",
            "[capped]\niops = 10\nbandwidth = 1e8\noperation_bytes = 0",
        ];
        for table in tables {
            let sentence = DeviceFile::parse(&format!("name = 'x'\n{table}")).unwrap_err();
            assert!(sentence.contains("was expected"), "{table}: {sentence}");
        }
    }
}
