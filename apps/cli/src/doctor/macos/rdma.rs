//! RDMA devices, as the commands that come with macOS tell. Those may hang when a program that used
//! RDMA was killed.

use crate::doctor::{
    check::{Check, State},
    machine::{Machine, Trouble},
};

/// An RDMA device: that of `en2` is `rdma_en2`.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct Device {
    pub(super) name: String,
    /// `PORT_ACTIVE`, say.
    pub(super) state: String,
    /// Its addresses, as far as they are set.
    pub(super) gids: Vec<String>,
}

impl Device {
    pub(super) fn is_active(&self) -> bool {
        self.state == "PORT_ACTIVE"
    }
}

/// Whether RDMA is switched on.
pub(super) fn enabled(machine: &dyn Machine, severity: State) -> Check {
    let name = "RDMA";
    let answer = machine.run(&["rdma_ctl", "status"]);
    let (found, remedy) = match answer.as_deref().map(str::trim) {
        Ok("enabled") => return Check::ok(name, "enabled"),
        Ok("disabled") => (
            "disabled".to_owned(),
            "start into macOS Recovery, open Utilities > Terminal, run: rdma_ctl enable; restart",
        ),
        Ok(other) => (format!("rdma_ctl says '{other}'"), "run it by hand: rdma_ctl status"),
        Err(trouble @ Trouble::Missing) => {
            (trouble.found("rdma_ctl"), "it comes with macOS 26.2: update")
        }
        Err(trouble) => (trouble.found("rdma_ctl"), "restart this Mac"),
    };
    Check { state: severity, ..Check::warning(name, found, remedy) }
}

/// The devices, with what is known of their ports.
pub(super) fn devices(machine: &dyn Machine) -> Result<Vec<Device>, Trouble> {
    let names = parse_devices(&machine.run(&["ibv_devices"])?);
    let known = parse_devinfo(&machine.run(&["ibv_devinfo", "-v"])?);
    let find = |name: String| {
        let device = known.iter().find(|device| device.name == name);
        device.cloned().unwrap_or(Device {
            name,
            state: "of unknown state".to_owned(),
            gids: vec![],
        })
    };
    Ok(names.into_iter().map(find).collect())
}

/// The names that `ibv_devices` lists below a heading of two lines.
pub(super) fn parse_devices(text: &str) -> Vec<String> {
    let below = text.lines().skip_while(|line| !line.contains("---")).skip(1);
    below.filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
}

/// The devices that `ibv_devinfo -v` describes.
pub(super) fn parse_devinfo(text: &str) -> Vec<Device> {
    let mut devices: Vec<Device> = Vec::new();
    for line in text.lines() {
        let Some((key, value)) = line.trim().split_once(':') else { continue };
        let value = value.trim();
        if key == "hca_id" {
            devices.push(Device { name: value.to_owned(), ..Device::default() });
        }
        let Some(device) = devices.last_mut() else { continue };
        if key == "state" {
            value.split(' ').next().unwrap_or_default().clone_into(&mut device.state);
        } else if key.starts_with("GID[") && value.bytes().any(|byte| !b"0:".contains(&byte)) {
            device.gids.push(value.to_owned());
        }
    }
    devices
}
