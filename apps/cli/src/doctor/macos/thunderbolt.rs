//! Thunderbolt ports and what is plugged into them, as `system_profiler` tells in JSON.
//!
//! Every Thunderbolt bus has a domain UUID. That of the bus at the other end of a cable is listed
//! with what is connected, which is how one knows another Mac, and which of its ports.

use serde_json::Value;

/// Gb/s of Thunderbolt 5, and of a cable that carries it.
pub(super) const THUNDERBOLT_5: u32 = 80;

/// A port of this Mac.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Port {
    /// Its number, as macOS shows it: `Thunderbolt 2` is port 2.
    pub(super) number: String,
    /// The kind of Mac this is.
    pub(super) model: String,
    /// The UUID of its bus.
    pub(super) domain: String,
    /// Gb/s that it can do; of a port in use only what is in use is known.
    pub(super) capability: u32,
    pub(super) link: Link,
}

/// What is at the other end of a port.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Link {
    Nothing,
    /// Disks, docks, displays.
    Devices(String),
    Mac {
        name: String,
        domain: String,
        /// Gb/s.
        speed: u32,
    },
}

impl Port {
    /// Whether another Mac is there, by a cable that is fast enough for RDMA.
    pub(super) fn can_rdma(&self) -> bool {
        matches!(self.link, Link::Mac { speed, .. } if speed >= THUNDERBOLT_5)
    }
}

/// Reads what `system_profiler SPThunderboltDataType -json` prints.
///
/// # Errors
///
/// What is wrong, in a sentence.
pub(super) fn parse(json: &str) -> Result<Vec<Port>, String> {
    let value: Value = serde_json::from_str(json)
        .map_err(|error| format!("system_profiler printed no JSON: {error}"))?;
    let buses = value["SPThunderboltDataType"].as_array();
    let buses = buses.ok_or("system_profiler printed no list SPThunderboltDataType")?;
    let mut ports: Vec<Port> = buses.iter().filter_map(port).collect();
    ports.sort_by(|one, other| one.number.cmp(&other.number));
    Ok(ports)
}

/// The port of a bus; a bus inside the machine has none.
fn port(bus: &Value) -> Option<Port> {
    let mut fields = bus.as_object()?.iter();
    let (_, receptacle) =
        fields.find(|(key, _)| key.starts_with("receptacle_") && key.ends_with("_tag"))?;
    let speed = gigabits(&text(receptacle, "current_speed_key"));
    Some(Port {
        number: text(receptacle, "receptacle_id_key"),
        model: text(bus, "device_name_key"),
        domain: text(bus, "domain_uuid_key"),
        capability: speed,
        link: link(bus, speed),
    })
}

fn link(bus: &Value, speed: u32) -> Link {
    let items = bus["_items"].as_array().map_or(&[][..], Vec::as_slice);
    // Only what is plugged in itself: a Mac behind a dock is not reached by RDMA.
    let mac = items.iter().find(|item| !item["domain_uuid_key"].is_null());
    if let Some(mac) = mac {
        return Link::Mac { name: text(mac, "_name"), domain: text(mac, "domain_uuid_key"), speed };
    }
    let names: Vec<String> = items.iter().map(|item| text(item, "_name")).collect();
    if names.is_empty() { Link::Nothing } else { Link::Devices(names.join(", ")) }
}

fn text(value: &Value, key: &str) -> String {
    value[key].as_str().unwrap_or("?").to_owned()
}

/// The number in `Up to 120 Gb/s` or `80 Gb/s`; 0 where there is none.
fn gigabits(text: &str) -> u32 {
    let number =
        text.split_whitespace().find(|word| word.bytes().all(|byte| byte.is_ascii_digit()));
    number.and_then(|number| number.parse().ok()).unwrap_or(0)
}
