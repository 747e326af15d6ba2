//! Two hosts on one machine: network namespaces of Linux, joined by a cable that can be pulled.

use std::{
    env, fs, io,
    path::{self, PathBuf},
    process::{self, Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
};

/// What stands in the place of ssh, to enter the namespace that a host is.
const SSH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/ssh-to-namespace");

/// By which addresses hosts are known.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Family {
    /// IPv4, and of IPv6 only what a link has by itself.
    V4,
    /// IPv6 alone.
    V6,
}

/// Two hosts; gone when dropped.
#[derive(Debug)]
pub struct Networks {
    names: [String; 2],
    // With the file of hosts in it.
    folder: PathBuf,
}

impl Networks {
    /// Makes two hosts.
    ///
    /// # Errors
    ///
    /// Why that cannot be done, in words, where this is no Linux, or the user is not root.
    pub fn new(family: Family) -> Result<Self, String> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        // Relaxed: a number need only differ from the others.
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let name = |host| format!("pangea-{}-{number}-{host}", process::id());
        let folder = env::temp_dir().join(name("hosts"));
        // Made before its parts: what is there when one fails goes with it.
        let networks = Self { names: [name("a"), name("b")], folder };
        let [a, b] = &networks.names;
        let addresses = match family {
            Family::V4 => ["10.77.0.1", "10.77.0.2"],
            Family::V6 => ["fd77::1", "fd77::2"],
        };
        let prefix = if family == Family::V4 { "/24" } else { "/64" };
        ip(&["netns", "add", a])?;
        ip(&["netns", "add", b])?;
        ip(&["link", "add", "eth0", "netns", a, "type", "veth", "peer", "eth0", "netns", b])?;
        for (host, address) in networks.names.iter().zip(addresses) {
            let address = format!("{address}{prefix}");
            let mut add = vec!["-n", host, "address", "add", &address, "dev", "eth0"];
            add.extend((family == Family::V6).then_some("nodad"));
            ip(&add)?;
            ip(&["-n", host, "link", "set", "lo", "up"])?;
            ip(&["-n", host, "link", "set", "eth0", "up"])?;
        }
        fs::create_dir_all(&networks.folder).map_err(|error| error.to_string())?;
        networks.list(&addresses[..1], addresses[1])?;
        Ok(networks)
    }

    /// Gives the first host of [`Family::V4`] another address, which it names as its own, before
    /// the one that it has if it `keeps` that. What the second host sends there nobody gets, nor
    /// says so, as where a firewall drops it.
    ///
    /// # Errors
    ///
    /// What `ip` says.
    pub fn hide(&self, keeps: bool) -> Result<(), String> {
        const HIDDEN: &str = "10.77.0.3";
        let [a, b] = &self.names;
        ip(&["-n", a, "address", "add", &format!("{HIDDEN}/24"), "dev", "eth0"])?;
        let nobody = ["lladdr", "02:00:00:00:00:01", "dev", "eth0", "nud", "permanent"];
        ip(&[&["-n", b, "neighbour", "add", HIDDEN], &nobody[..]].concat())?;
        let named = if keeps { &[HIDDEN, "10.77.0.1"][..] } else { &[HIDDEN] };
        self.list(named, "10.77.0.2")
    }

    /// Lists the hosts, and the addresses of the first and the second, for `pangea run`.
    fn list(&self, first: &[&str], second: &str) -> Result<(), String> {
        let second_host = &self.names[1];
        let one = format!(r#"{{"ssh": "localhost", "ips": {first:?}}}"#);
        let two = format!(r#"{{"ssh": "{second_host}", "ips": ["{second}"]}}"#);
        fs::write(self.hosts(), format!("[{one}, {two}]")).map_err(|error| error.to_string())
    }

    /// `pangea run` with `options`, on the first host, that starts `nodes` nodes on each of the
    /// two.
    pub fn run(&self, pangea: &path::Path, nodes: u16, options: &[&str]) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.names[0]]).arg(pangea);
        command.args(["run", "-n", &nodes.to_string(), "--hosts"]).arg(self.hosts());
        command.args(options).env("PANGEA_SSH", SSH);
        command
    }

    /// Pulls the cable between the two, or puts it back.
    ///
    /// # Errors
    ///
    /// What `ip` says.
    pub fn plug(&self, is_plugged: bool) -> Result<(), String> {
        let state = if is_plugged { "up" } else { "down" };
        ip(&["-n", &self.names[0], "link", "set", "eth0", state])
    }

    fn hosts(&self) -> PathBuf {
        self.folder.join("hosts.json")
    }
}

impl Drop for Networks {
    fn drop(&mut self) {
        for name in &self.names {
            // One that was not made need not go.
            _ = ip(&["netns", "delete", name]);
        }
        _ = fs::remove_dir_all(&self.folder);
    }
}

/// Runs ip(8).
fn ip(arguments: &[&str]) -> Result<(), String> {
    let output = Command::new("ip").args(arguments).stdin(Stdio::null()).output();
    let failed = match output {
        Ok(output) if output.status.success() => return Ok(()),
        Ok(output) => String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => "there is no such program".into(),
        Err(error) => error.to_string(),
    };
    Err(format!("ip {}: {failed}", arguments.join(" ")))
}
