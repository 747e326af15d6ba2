//! What the environment asks of the hardware.

use std::{env, ffi::OsString, path::PathBuf, str::FromStr, time::Duration};

use crate::cabling::{Cabling, Port};

/// Each variable's name begins so.
const PREFIX: &str = "PANGEA_FAKE_TB_";

/// The variables, read; `lib.rs` lists them.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) directory: PathBuf,
    pub(crate) host: u8,
    pub(crate) cabling: Cabling,
    // Ports that are down.
    down: Vec<Port>,
    pub(crate) events: Events,
    pub(crate) claims: Claims,
    pub(crate) faults: Faults,
}

/// What completion channels do; nobody has tried them on hardware (`apple-rdma.md` 1.2).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Events {
    Work,
    Refused,
    Silent,
}

/// Reports of hardware that others contradict (1.3): each can be made true.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Claims {
    /// A memory region works only with queue pairs that were connected after it was made.
    pub(crate) regions_first: bool,
    /// A peer's link-local address is not found.
    pub(crate) cold_neighbours: bool,
    /// A receive is refused before its queue pair is ready to send.
    pub(crate) ready_first: bool,
    /// A memory region must allow remote access.
    pub(crate) remote_access: bool,
}

/// What goes wrong on the wire.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Faults {
    /// Probabilities, for each frame.
    pub(crate) loss: f64,
    pub(crate) duplicate: f64,
    pub(crate) corrupt: f64,
    /// How long a queue pair stops sending, once in a while.
    pub(crate) stall: Duration,
    pub(crate) seed: u64,
}

impl Settings {
    /// Reads the environment; an error says which variable is wrong, and how it should be.
    pub(crate) fn from_env() -> Result<Self, String> {
        Self::read(|name| env::var_os(name))
    }

    fn read(variable: impl Fn(&str) -> Option<OsString>) -> Result<Self, String> {
        let variable = |name: &str| {
            variable(&format!("{PREFIX}{name}")).or_else(|| {
                // A node of a job is a host of its own unless told otherwise.
                match name {
                    "HOST" => variable("PANGEA_NODE"),
                    "HOSTS" => variable("PANGEA_NODES"),
                    _ => None,
                }
            })
        };
        let text = |name: &str| variable(name).map(|value| value.to_string_lossy().into_owned());
        let directory = variable("DIR").ok_or_else(|| {
            format!("{PREFIX}DIR is not set: name a directory where the hosts' processes meet")
        })?;
        let cabling = match text("CABLES") {
            Some(cables) => cables.parse().map_err(|error| format!("{PREFIX}CABLES: {error}"))?,
            None => Cabling::mesh(parse("HOSTS", text("HOSTS"), 2)?)
                .map_err(|error| format!("{PREFIX}HOSTS: {error}"))?,
        };
        Ok(Self {
            directory: directory.into(),
            host: parse("HOST", text("HOST"), 0)?,
            cabling,
            down: list("DOWN", text("DOWN"))?,
            events: events(text("EVENTS"))?,
            claims: claims(text("CLAIMS"))?,
            faults: Faults {
                loss: probability("LOSS", text("LOSS"))?,
                duplicate: probability("DUPLICATE", text("DUPLICATE"))?,
                corrupt: probability("CORRUPT", text("CORRUPT"))?,
                stall: Duration::from_millis(parse("STALL_MS", text("STALL_MS"), 0)?),
                seed: parse("SEED", text("SEED"), 0)?,
            },
        })
    }

    /// Whether the environment leaves the port up.
    pub(crate) fn is_up(&self, port: Port) -> bool {
        !self.down.contains(&port)
    }
}

fn parse<T: FromStr>(name: &str, text: Option<String>, default: T) -> Result<T, String> {
    let Some(text) = text else { return Ok(default) };
    text.parse().map_err(|_| format!("{PREFIX}{name}: `{text}` is no number that fits"))
}

fn probability(name: &str, text: Option<String>) -> Result<f64, String> {
    let probability = parse(name, text, 0.0)?;
    if (0.0..1.0).contains(&probability) {
        return Ok(probability);
    }
    Err(format!("{PREFIX}{name}: {probability} is no probability from 0 to below 1"))
}

fn list<T: FromStr<Err = String>>(name: &str, text: Option<String>) -> Result<Vec<T>, String> {
    let text = text.unwrap_or_default();
    let items = text.split(',').filter(|item| !item.is_empty());
    items
        .map(str::parse)
        .collect::<Result<_, _>>()
        .map_err(|error| format!("{PREFIX}{name}: {error}"))
}

fn events(text: Option<String>) -> Result<Events, String> {
    match text.as_deref() {
        None | Some("1") => Ok(Events::Work),
        Some("0") => Ok(Events::Refused),
        Some("silent") => Ok(Events::Silent),
        Some(other) => Err(format!("{PREFIX}EVENTS: `{other}` is none of 1, 0, silent")),
    }
}

/// Reads names of claims; unset, those are true that are harder on the program.
fn claims(text: Option<String>) -> Result<Claims, String> {
    let text = text.unwrap_or_else(|| "regions-first,cold-neighbours".into());
    let mut claims = Claims {
        regions_first: false,
        cold_neighbours: false,
        ready_first: false,
        remote_access: false,
    };
    for name in text.split(',').filter(|name| !name.is_empty()) {
        let claim = match name {
            "regions-first" => &mut claims.regions_first,
            "cold-neighbours" => &mut claims.cold_neighbours,
            "ready-first" => &mut claims.ready_first,
            "remote-access" => &mut claims.remote_access,
            _ => {
                return Err(format!(
                    "{PREFIX}CLAIMS: `{name}` is none of regions-first, cold-neighbours, \
                     ready-first, remote-access"
                ));
            }
        };
        *claim = true;
    }
    Ok(claims)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<Settings, String> {
        Settings::read(|name| {
            let found = variables.iter().find(|(variable, _)| *variable == name);
            found.map(|(_, value)| OsString::from(value))
        })
    }

    #[test]
    fn a_node_of_a_job_is_a_host_of_its_own() {
        let job = [("PANGEA_FAKE_TB_DIR", "/d"), ("PANGEA_NODE", "2"), ("PANGEA_NODES", "4")];
        let settings = read(&job).unwrap();
        assert_eq!(settings.host, 2);
        assert_eq!(settings.cabling.ports(2).len(), 3);
        let told = [&job[..], &[("PANGEA_FAKE_TB_HOST", "1")]].concat();
        assert_eq!(read(&told).unwrap().host, 1);
    }

    #[test]
    fn a_bad_value_is_refused_with_its_name() {
        assert!(read(&[]).unwrap_err().contains("PANGEA_FAKE_TB_DIR is not set"));
        for (name, value) in [
            ("HOST", "-1"),
            ("HOSTS", "16"),
            ("CABLES", "0.en2"),
            ("DOWN", "en2"),
            ("EVENTS", "yes"),
            ("CLAIMS", "ready"),
            ("LOSS", "1.5"),
            ("STALL_MS", "1ms"),
        ] {
            let name = format!("{PREFIX}{name}");
            let error = read(&[("PANGEA_FAKE_TB_DIR", "/d"), (&name, value)]).unwrap_err();
            assert!(error.starts_with(&format!("{name}:")), "{error}");
        }
    }
}
