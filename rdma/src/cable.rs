//! RDMA between two nodes that have met: found, connected and proven, before it is used.
//!
//! The two ends tell each other their ports over TCP, try pairs of them one after the other, and
//! send each other bytes that are checked. What works first is taken; of what does not, both know
//! why.
//!
//! ```text
//! each  offer      which ports, and what they are wired with; or why none
//! each  endpoint   of the pair of ports that is tried, or why it could not be made
//! each  verdict    whether it could be connected, or why not
//! each  verdict    whether what was sent has come, or why not
//! ```

mod devices;
mod offer;
mod proof;

use std::{
    collections::VecDeque,
    env,
    fs::File,
    io::Read,
    sync::Arc,
    time::{Duration, Instant},
};

pub(crate) use self::offer::{decode as decode_offer, samples as offers};
use self::{
    devices::Devices,
    offer::{Kind, Offer},
};
use crate::{
    Error, Mapping, NodeId, Region, Result,
    bootstrap::Connection,
    descriptor,
    frames::{self, Device},
    link::{Identity, Link, Settings},
    reliable::{self, Native},
    stream::{Inlet, Outlet},
    verbs::{Endpoint, Held, Port, Wire, rc::Rc, uc::Uc},
};

/// The devices by which each node is reached: `PANGEA_RDMA`, with commas between the nodes, and `+`
/// between the devices that lead to one. Nothing between two commas is no device; without the
/// variable, each may lead anywhere.
const DEVICES: &str = "PANGEA_RDMA";
/// The kind of connection, where devices have both: `PANGEA_VERBS`, `rc` or `uc`.
const KIND: &str = "PANGEA_VERBS";
/// How long one step of the conversation may take.
const STEP: Duration = Duration::from_secs(5);
/// Between two looks whether the peer has spoken, while the link is attended to.
const MOMENT: Duration = Duration::from_millis(1);

/// This node's ports, and what was made of them.
#[derive(Debug)]
pub(crate) struct Ports {
    node: NodeId,
    // Or why there are none.
    devices: Result<Held<Devices>, String>,
    // By node: the names of the devices that lead there. Empty where any may lead anywhere.
    names: Vec<Vec<String>>,
    kind: Option<Kind>,
}

/// A way to a peer by RDMA.
#[derive(Debug)]
pub(crate) struct Cable {
    pub(crate) outlet: Box<dyn Outlet>,
    pub(crate) inlet: Box<dyn Inlet>,
    /// Reads and writes by the devices, where they can.
    pub(crate) native: Option<Native>,
    /// The device's name.
    pub(crate) device: String,
    /// How fast it has proved to be, for people.
    pub(crate) proof: String,
}

impl Ports {
    /// Those of this machine that are up.
    pub(crate) fn look(node: NodeId) -> Result<Self> {
        let kind = match env::var(KIND).as_deref() {
            Err(_) | Ok("") => None,
            Ok("rc") => Some(Kind::Reliable),
            Ok("uc") => Some(Kind::Unreliable),
            Ok(other) => {
                let reason = format!("'{other}' is neither rc nor uc");
                return Err(Error::Config { field: KIND, reason });
            }
        };
        let named = env::var(DEVICES).unwrap_or_default();
        let names =
            if named.is_empty() { Vec::new() } else { named.split(',').map(names).collect() };
        let devices = Devices::look().map(Held::new).map_err(|error| error.to_string());
        Ok(Self { node, devices, names, kind })
    }

    /// None, for `reason`.
    pub(crate) fn none(node: NodeId, reason: &str) -> Self {
        Self { node, devices: Err(reason.to_owned()), names: Vec::new(), kind: None }
    }

    /// Lets the devices of the peers read and write `memory`, which is `region` here.
    pub(crate) fn share(&self, region: Region, memory: &Arc<Mapping>) {
        if let Ok(devices) = &self.devices {
            devices.with(|devices| devices.share(region, memory));
        }
    }

    /// Finds ways to `peer`, at the other end of `connection`: a reliable one, or as many as there
    /// are; or why there is none, which both ends know.
    ///
    /// # Errors
    ///
    /// Where the conversation failed: the peer is as good as lost.
    pub(crate) fn connect(
        &self,
        peer: NodeId,
        connection: &mut Connection,
    ) -> Result<Result<Vec<Cable>, String>> {
        let (ours, mine) = self.offer(peer);
        connection.send(&ours.to_bytes(), soon())?;
        let theirs = Offer::from_bytes(&connection.receive(soon())?)?;
        let (mut cables, mut refusals) = (Vec::new(), Vec::new());
        let mut pairs = VecDeque::from(ours.pairs(&theirs, self.node < peer));
        while let Some((here, there, place)) = pairs.pop_front() {
            let kind = ours.kind_with(&theirs, here);
            if kind == Kind::Reliable && !cables.is_empty() {
                continue;
            }
            let mut attempt =
                Attempt { ports: self, peer, connection, cluster: theirs.with(&ours) };
            // One that has failed leaves nothing behind: its devices have few of everything.
            match attempt.run(&mine[here], kind, place)? {
                Ok(cable) => {
                    cables.push(cable);
                    // Either port has found its other end.
                    pairs.retain(|pair| pair.0 != here && pair.1 != there);
                }
                Err(why) => {
                    let name = mine[here].context().name();
                    refusals.push(format!("{name} to {}: {why}", theirs.name(there)));
                }
            }
        }
        let is_used = |name: &String| cables.iter().any(|cable| cable.device == *name);
        let unused: Vec<&String> = self.names(peer).iter().filter(|&name| !is_used(name)).collect();
        if let Some(cable) = cables.last_mut() {
            unused.iter().for_each(|name| cable.proof.push_str(&format!(", not by {name}")));
            return Ok(Ok(cables));
        }
        let reasons = ours.reason().into_iter().chain(theirs.reason()).map(str::to_owned);
        refusals.extend(reasons);
        if refusals.is_empty() {
            refusals.push("no two ports are wired with the same".to_owned());
        }
        refusals.dedup();
        Ok(Err(refusals.join("; ")))
    }

    /// What this node offers to `peer`, and the ports of that.
    fn offer(&self, peer: NodeId) -> (Offer, Vec<Port>) {
        let found = match &self.devices {
            Ok(devices) => devices.with(|devices| devices.ports().to_vec()).unwrap_or_default(),
            Err(reason) => return (Offer::none(reason, random()), Vec::new()),
        };
        let is_named = |port: &Port| {
            self.names.is_empty()
                || self.names(peer).iter().any(|name| name == port.context().name())
        };
        let ports: Vec<Port> = found.into_iter().filter(is_named).collect();
        if ports.is_empty() {
            let reason = match self.names(peer) {
                [] => "no device is named for it".to_owned(),
                names => {
                    format!("{}, which {DEVICES} names, is no active device", names.join(" and "))
                }
            };
            return (Offer::none(&reason, random()), ports);
        }
        (Offer::new(&ports, self.kind, random()), ports)
    }

    /// The devices that are named for a peer.
    fn names(&self, peer: NodeId) -> &[String] {
        self.names.get(peer.index()).map_or(&[], Vec::as_slice)
    }

    /// Makes something of the devices.
    fn make<T>(&self, make: impl FnOnce(&mut Devices) -> Result<T>) -> Result<T> {
        let made = self.devices.as_ref().ok().and_then(|devices| devices.with(make));
        made.ok_or_else(ending)?
    }
}

/// One pair of ports that is tried.
struct Attempt<'a> {
    ports: &'a Ports,
    peer: NodeId,
    connection: &'a mut Connection,
    // Names the link.
    cluster: u64,
}

impl Attempt<'_> {
    fn run(&mut self, port: &Port, kind: Kind, place: usize) -> Result<Result<Cable, String>> {
        let made = self.make(port, kind, place).map(|wired| {
            let endpoint = wired.endpoint();
            // It may have to be let go of while the peer is waited for.
            (Held::new(wired), endpoint)
        });
        match &made {
            Ok((_, endpoint)) => self.tell(Ok(&endpoint.to_bytes()))?,
            Err(error) => self.tell(Err(error))?,
        }
        let theirs = self.hear()?;
        let (wired, theirs) = match (made, theirs) {
            (Ok((wired, _)), Ok(theirs)) => (wired, theirs),
            (Err(why), _) => return Ok(Err(why.to_string())),
            (_, Err(why)) => return Ok(Err(format!("there: {why}"))),
        };
        let connected = endpoint_of(&theirs)
            .and_then(|theirs| wired.with(|wired| wired.connect(&theirs)).unwrap_or(Err(ending())));
        self.tell(connected.as_ref().map(|()| &[][..]))?;
        if let Err(why) = both(&connected, self.hear()?) {
            return Ok(Err(why));
        }
        let (mut cable, tells) = self.rig(wired.take().ok_or_else(ending)?, port)?;
        let proven = proof::prove(&mut cable, self.ports.node, self.peer, Instant::now() + STEP);
        self.tell(proven.as_ref().map(|_| &[][..]))?;
        let stream = &self.connection.stream;
        proof::attend(&mut cable, soon(), || {
            descriptor::await_input(&mut [descriptor::input(stream)], Some(MOMENT))
        });
        if let Err(why) = both(&proven, self.hear()?) {
            return Ok(Err(why));
        }
        let speed = proven.map_or(String::new(), |speed| speed.to_string());
        let how = if tells { "" } else { ", and looked at now and then" };
        cable.proof = format!("{speed}{how}");
        Ok(Ok(cable))
    }

    fn make(&self, port: &Port, kind: Kind, place: usize) -> Result<Wired> {
        match kind {
            Kind::Reliable => {
                let registry = self.ports.make(|devices| devices.registry(port))?;
                Ok(Wired::Reliable(Box::new(Rc::new(&registry, place)?)))
            }
            Kind::Unreliable => {
                let settings = self.settings();
                let count = |frames: usize| u32::try_from(frames).expect("frames are few");
                let domain = self.ports.make(|devices| devices.domain(port))?;
                let (sends, receives) = (count(settings.slots()), count(settings.receives()));
                Ok(Wired::Unreliable(Box::new(Uc::new(&domain, sends, receives, place)?)))
            }
        }
    }

    fn settings(&self) -> Settings {
        let (source, target) = (self.ports.node, self.peer);
        Settings::new(Identity { cluster: self.cluster, epoch: 1, source, target })
    }

    /// Makes a link of what is connected; whether its device tells when something comes.
    fn rig(&self, wired: Wired, port: &Port) -> Result<(Cable, bool)> {
        let (device, proof) = (port.context().name().to_owned(), String::new());
        match wired {
            Wired::Reliable(wire) => {
                let (outlet, inlet, native) = reliable::ends(*wire, self.peer);
                Ok((Cable { outlet, inlet, native: Some(native), device, proof }, true))
            }
            Wired::Unreliable(wire) => {
                // Nobody has seen Apple's driver tell.
                let tells = port.wire() != Wire::Thunderbolt && wire.descriptor().is_some();
                let wire = Device::new(*wire, tells);
                let (outlet, inlet) = frames::ends(wire, Link::new(self.settings())?);
                let (outlet, inlet) = (Box::new(outlet), Box::new(inlet));
                Ok((Cable { outlet, inlet, native: None, device, proof }, tells))
            }
        }
    }

    /// Tells the peer of this end's success, or why it failed.
    fn tell(&mut self, ours: Result<&[u8], &Error>) -> Result {
        let said = match ours {
            Ok(bytes) => [&[1], bytes].concat(),
            Err(error) => [&[0], error.to_string().as_bytes()].concat(),
        };
        self.connection.send(&said, soon())
    }

    /// Hears of the peer's.
    fn hear(&mut self) -> Result<Result<Vec<u8>, String>> {
        let heard = self.connection.receive(soon())?;
        match heard.split_first() {
            Some((1, bytes)) => Ok(Ok(bytes.to_vec())),
            Some((0, why)) => Ok(Err(String::from_utf8_lossy(why).into_owned())),
            _ => Err(Error::protocol("a verdict that is neither")),
        }
    }
}

/// The devices that lead to one node, as they are named.
fn names(text: &str) -> Vec<String> {
    text.split('+').map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).collect()
}

/// Whether both ends have succeeded; else why not.
fn both<T>(ours: &Result<T>, theirs: Result<Vec<u8>, String>) -> Result<(), String> {
    match (ours, theirs) {
        (Err(why), _) => Err(why.to_string()),
        (_, Err(why)) => Err(format!("there: {why}")),
        (Ok(_), Ok(_)) => Ok(()),
    }
}

/// An end that may be connected.
enum Wired {
    Reliable(Box<Rc>),
    Unreliable(Box<Uc>),
}

impl Wired {
    fn endpoint(&self) -> Endpoint {
        match self {
            Self::Reliable(wire) => wire.endpoint(),
            Self::Unreliable(wire) => wire.endpoint(),
        }
    }

    fn connect(&mut self, peer: &Endpoint) -> Result {
        match self {
            Self::Reliable(wire) => wire.connect(peer),
            Self::Unreliable(wire) => wire.connect(peer),
        }
    }
}

fn endpoint_of(bytes: &[u8]) -> Result<Endpoint> {
    let bytes = bytes.try_into().map_err(|_| Error::protocol("an endpoint of another length"))?;
    Endpoint::from_bytes(bytes)
}

/// That devices have been let go of.
fn ending() -> Error {
    Error::protocol("the process is about to end")
}

fn soon() -> Instant {
    // A peer may be trying what it takes a while to refuse.
    Instant::now() + 2 * STEP
}

/// A number that nobody guesses; zero if there is none to be had.
fn random() -> u64 {
    let mut bytes = [0; 8];
    _ = File::open("/dev/urandom").and_then(|mut source| source.read_exact(&mut bytes));
    u64::from_le_bytes(bytes)
}
