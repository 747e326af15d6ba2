//! The nodes that have come to a coordinator.

use std::{
    mem,
    time::{Duration, Instant},
};

use super::message::{self, Hello};
use crate::{
    Error, Result,
    bootstrap::{build::Agreement, channel::Channel, reception::Caller, timed::describe},
    descriptor,
};

/// How long a node may take to finish what it has begun to say, or to hear what it is told.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often the coordinator looks whether it has been called off.
const TICK: Duration = Duration::from_millis(5);

/// The nodes as they arrive.
#[derive(Debug)]
pub(super) struct Arrivals {
    start: Instant,
    // By node.
    places: Vec<Option<Arrival>>,
    agreement: Agreement,
    refusal: Option<String>,
}

/// A node that has come.
#[derive(Debug)]
struct Arrival {
    channel: Channel,
    hello: Hello,
}

impl Arrivals {
    pub(super) fn new(nodes: u16) -> Self {
        let places = (0..nodes).map(|_| None).collect();
        let agreement = Agreement::default();
        Self { start: Instant::now(), places, agreement, refusal: None }
    }

    /// The first node that is not there yet.
    pub(super) fn missing(&self) -> Option<usize> {
        self.places.iter().position(Option::is_none)
    }

    /// Lets the caller in, if it is a node of this job that is not there yet. One that cannot work
    /// with the others is an error for all: it has the key, and will not come back as another.
    pub(super) fn admit(&mut self, caller: Caller) -> Result {
        let Caller { mut channel, message } = caller;
        let hello = match self.check_hello(&message) {
            Ok(hello) => hello,
            Err(reason) => {
                self.refusal = Some(format!("{}: {reason}", channel.address()));
                tell(&mut channel, &message::encode_table(Err(&reason)));
                return Ok(());
            }
        };
        let difference = self.places.iter().flatten().next().and_then(|one| one.differs(&hello));
        let mut arrival = Arrival { channel, hello };
        let build = mem::take(&mut arrival.hello.build);
        let difference = difference.or(self.agreement.join(&arrival.name(), build).err());
        let place = arrival.hello.node.index();
        self.places[place] = Some(arrival);
        match difference {
            Some(difference) => Err(self.fail(difference)),
            None => Ok(()),
        }
    }

    /// An error where a node has gone again.
    pub(super) fn check(&mut self) -> Result {
        let arrived = self.places.iter().flatten();
        let mut polled: Vec<_> =
            arrived.clone().map(|one| descriptor::input(one.channel.stream())).collect();
        // Nobody has been asked anything yet: what can be read is the end of the stream.
        if !descriptor::await_input(&mut polled, Some(Duration::ZERO)) {
            return Ok(());
        }
        let gone = arrived.zip(&polled).find(|(_, polled)| polled.revents != 0);
        let Some((gone, _)) = gone else { return Ok(()) };
        let reason = format!("{} left before all had joined", gone.name());
        Err(self.fail(reason))
    }

    /// Remembers why somebody was refused: perhaps it is the node that is waited for.
    pub(super) fn note_refusal(&mut self, reason: String) {
        self.refusal = Some(reason);
    }

    /// The error for a node that did not come, which all that did are told.
    pub(super) fn give_up(&mut self, missing: usize) -> Error {
        let mut waiting_for = format!("node {missing} to join the job");
        if let Some(refusal) = &self.refusal {
            waiting_for += &format!(" (somebody else came: {refusal})");
        }
        let error = Error::TimedOut { waiting_for, after: self.start.elapsed() };
        _ = self.fail(error.to_string());
        error
    }

    /// The nodes, all of which are there, and their cards.
    pub(super) fn into_guests(self) -> (Guests, Vec<Vec<u8>>) {
        let arrivals = self.places.into_iter().flatten();
        let (channels, cards) = arrivals.map(|one| (one.channel, one.hello.card)).unzip();
        (Guests { channels }, cards)
    }

    /// What the caller says, if it may be a node of this job.
    fn check_hello(&self, message: &[u8]) -> Result<Hello, String> {
        let hello = Hello::decode(message).map_err(|error| error.to_string())?;
        let (node, nodes) = (hello.node, self.places.len());
        match self.places.get(node.index()) {
            Some(None) if usize::from(hello.nodes) == nodes => Ok(hello),
            Some(Some(_)) => Err(format!("{node} is there already")),
            _ => Err(format!("it is {node} of {}, the job has {nodes} nodes", hello.nodes)),
        }
    }

    fn fail(&mut self, reason: String) -> Error {
        let told = message::encode_table(Err(&reason));
        self.places.iter_mut().flatten().for_each(|one| tell(&mut one.channel, &told));
        Error::JoinFailed { reason }
    }
}

impl Arrival {
    fn name(&self) -> String {
        format!("{} ({})", self.hello.node, self.channel.address())
    }

    /// Why this node and one that says `other` cannot work together.
    fn differs(&self, other: &Hello) -> Option<String> {
        let (own, theirs) = (self.hello.page_size, other.page_size);
        let differ =
            || format!("{} has pages of {theirs}, {} {own} bytes", other.node, self.name());
        (own != theirs).then(differ)
    }
}

/// The nodes once all are there.
#[derive(Debug)]
pub(super) struct Guests {
    // By node.
    channels: Vec<Channel>,
}

impl Guests {
    /// Waits for what every node says; `None` where the meeting was called off. A node that cannot
    /// join ends it for all.
    pub(super) fn gather(
        &mut self,
        deadline: Instant,
        is_off: &dyn Fn() -> bool,
    ) -> Result<Option<Vec<Vec<u8>>>> {
        let start = Instant::now();
        let mut said: Vec<Option<Vec<u8>>> = self.channels.iter().map(|_| None).collect();
        while let Some(missing) = said.iter().position(Option::is_none) {
            let ready = self.ready(&said);
            // Why a node cannot join comes before that it has called the meeting off.
            if ready.is_empty() && is_off() {
                return Ok(None);
            }
            if Instant::now() >= deadline {
                let waiting_for = format!("node {missing} to reach the others");
                let error = Error::TimedOut { waiting_for, after: start.elapsed() };
                self.tell(Err(&error.to_string()));
                return Err(error);
            }
            for node in ready {
                match listen(&mut self.channels[node]) {
                    Ok(content) => said[node] = Some(content),
                    Err(error) => {
                        let reason = format!("node {node}: {}", describe(&error));
                        self.tell(Err(&reason));
                        return Err(Error::JoinFailed { reason });
                    }
                }
            }
        }
        Ok(Some(said.into_iter().flatten().collect()))
    }

    /// Tells every node what all have said, or why there is no meeting.
    pub(super) fn tell(&mut self, table: Result<&[Vec<u8>], &str>) {
        let told = message::encode_table(table);
        self.channels.iter_mut().for_each(|channel| tell(channel, &told));
    }

    pub(super) fn into_channels(self) -> Vec<Channel> {
        self.channels
    }

    /// The nodes that have something to say, of those that have said nothing yet.
    fn ready(&self, said: &[Option<Vec<u8>>]) -> Vec<usize> {
        let silent: Vec<usize> = (0..said.len()).filter(|node| said[*node].is_none()).collect();
        let mut polled: Vec<_> =
            silent.iter().map(|node| descriptor::input(self.channels[*node].stream())).collect();
        if !descriptor::await_input(&mut polled, Some(TICK)) {
            return Vec::new();
        }
        let ready = silent.into_iter().zip(&polled).filter(|(_, polled)| polled.revents != 0);
        ready.map(|(node, _)| node).collect()
    }
}

/// What the node at `channel` says.
fn listen(channel: &mut Channel) -> Result<Vec<u8>> {
    let said = channel.receive(message::SAID_LEN_MAX, Instant::now() + PATIENCE)?;
    let content = message::decode_said(&said)?;
    content.map(<[u8]>::to_vec).map_err(|reason| Error::JoinFailed { reason })
}

/// Tells a node; one that has gone is missed when it is to say something.
fn tell(channel: &mut Channel, told: &[u8]) {
    _ = channel.send(told, Instant::now() + PATIENCE);
}
