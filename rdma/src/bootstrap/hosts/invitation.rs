//! Where a node of several hosts is to go, and which part it has.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};

use crate::{
    Error, NodeId, Result,
    bootstrap::{Job, environment::Environment, key, local, noise::Terms},
};

/// Where the nodes meet: a list of `host:port`, with commas between them.
pub const COORDINATOR: &str = "PANGEA_COORDINATOR";
/// The addresses at which this node listens, with commas between them; all of its host by default.
pub const ADDRESSES: &str = "PANGEA_ADDRESSES";
/// Set to 1 where nobody but friends can see what travels: then it is not encrypted.
pub const TRUSTED_NETWORK: &str = "PANGEA_TRUSTED_NETWORK";
/// What this host is called in the place of its identity; nodes that say the same share memory.
pub const HOST: &str = "PANGEA_HOST";

/// The place and the part that this process has been given.
#[derive(Clone, Debug)]
pub struct Invitation {
    pub(super) coordinator: Vec<String>,
    pub(super) terms: Terms,
    pub(super) node: NodeId,
    pub(super) nodes: u16,
    pub(super) addresses: Option<Vec<IpAddr>>,
    pub(super) host: Option<String>,
    // Without one, node 0 is the coordinator too.
    pub(super) has_launcher: bool,
}

impl Invitation {
    /// Reads the environment; `None` where it names no coordinator.
    pub fn from_env() -> Result<Option<Self>> {
        Self::read(&Environment::of_process())
    }

    pub(in crate::bootstrap) fn read(environment: &Environment<'_>) -> Result<Option<Self>> {
        let Some(coordinator) = environment.text(COORDINATOR)? else { return Ok(None) };
        let Some(part) = environment.part()? else {
            let reason = format!("missing beside {COORDINATOR}, and no launcher has set it");
            return Err(Error::Config { field: local::NODE, reason });
        };
        // A launcher of ours names the job by a number. Who starts nodes by hand may give it a
        // name, or none: whoever calls at its place with its key then belongs to it.
        let name = environment.text(local::JOB)?.unwrap_or_default();
        let (job, has_launcher) =
            Job::parse(&name).map_or_else(|| (Job::named(&name), false), |job| (job, true));
        let invitation = Self::new(environment, &coordinator, job, part)?;
        Ok(Some(Self { has_launcher, ..invitation }))
    }

    /// To a meeting at `coordinator`, which is node 0, with the rest from the environment.
    pub(in crate::bootstrap) fn new(
        environment: &Environment<'_>,
        coordinator: &str,
        job: Job,
        part: (NodeId, u16),
    ) -> Result<Self> {
        let Some(key) = environment.key()? else {
            let reason = format!(
                "missing: nodes of several hosts trust whoever has their key; make one with \
                 'pangea key FILE', copy the file to every host, and set {}=FILE",
                key::KEY_FILE
            );
            return Err(Error::Config { field: key::KEY, reason });
        };
        let trust = environment.flag(TRUSTED_NETWORK)?;
        let coordinator = coordinator.split(',').map(|place| place.trim().to_owned()).collect();
        let terms = Terms { key, job, trust };
        Ok(Self {
            addresses: environment.text(ADDRESSES)?.map(|text| parse(&text)).transpose()?,
            host: environment.text(HOST)?,
            has_launcher: false,
            ..Self::to(coordinator, terms, part)
        })
    }

    /// To a meeting at `coordinator`, without regard to the environment.
    pub(super) fn to(coordinator: Vec<String>, terms: Terms, part: (NodeId, u16)) -> Self {
        let (node, nodes) = part;
        let has_launcher = true;
        Self { coordinator, terms, node, nodes, addresses: None, host: None, has_launcher }
    }

    /// Which node this process is to be.
    pub fn node(&self) -> NodeId {
        self.node
    }

    /// Where the coordinator may be, as names stand for now.
    pub(super) fn places(&self) -> Result<Vec<SocketAddr>> {
        let mut places = Vec::new();
        let mut failure = None;
        for place in &self.coordinator {
            match place.to_socket_addrs() {
                Ok(found) => places.extend(found),
                Err(error) => {
                    let reason = format!("'{place}' is no place to meet: {error}; say host:port");
                    failure = Some(Error::Config { field: COORDINATOR, reason });
                }
            }
        }
        match failure {
            Some(failure) if places.is_empty() => Err(failure),
            _ => Ok(places),
        }
    }
}

fn parse(text: &str) -> Result<Vec<IpAddr>> {
    let address = |part: &str| {
        part.trim().parse().map_err(|_| Error::Config {
            field: ADDRESSES,
            reason: format!("'{part}' is no IP address; name those of this host, as 10.0.0.1,::1"),
        })
    };
    text.split(',').map(address).collect()
}
