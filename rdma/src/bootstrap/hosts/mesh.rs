//! Every two nodes connect: the higher number calls the lower one.

use std::{
    collections::BTreeMap,
    net::{IpAddr, SocketAddr, TcpStream},
    sync::{
        Mutex, MutexGuard, PoisonError,
        mpsc::{self, Sender},
    },
    thread,
    time::{Duration, Instant},
};

use super::{
    guest::Guest,
    invitation::{ADDRESSES, Invitation},
    message::{self, Card},
};
use crate::{
    Error, NodeId, Result,
    bootstrap::{
        Connection, interfaces, noise,
        race::Race,
        reception::{Caller, Reception, Waker},
        timed::describe,
    },
};

/// Nodes that are called at once: one that is hard to reach delays few others.
const CALLS: usize = 16;
/// How often a node may hang up on a caller, as it does for want of threads.
const CALLS_CUT_OFF_MAX: usize = 3;
/// How long an address may take to answer, and who is there for one message.
const PATIENCE: Duration = Duration::from_secs(5);

/// What is needed to connect.
#[derive(Debug)]
pub(super) struct Mesh<'a> {
    pub(super) invitation: &'a Invitation,
    // By node.
    pub(super) cards: &'a [Card],
    // The coordinator is on this host, and so are all nodes, whatever their hosts are called.
    pub(super) is_loopback: bool,
    pub(super) deadline: Instant,
}

/// A node that was called, and how that went.
type Called = (NodeId, Result<Connection>);

/// The nodes to be called; `None` once nobody need be called any more.
#[derive(Debug)]
struct Queue(Mutex<Option<Vec<NodeId>>>);

impl Queue {
    fn next(&self) -> Option<NodeId> {
        self.lock().as_mut().and_then(Vec::pop)
    }

    fn is_over(&self) -> bool {
        self.lock().is_none()
    }

    fn close(&self) {
        *self.lock() = None;
    }

    fn lock(&self) -> MutexGuard<'_, Option<Vec<NodeId>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Mesh<'_> {
    /// Calls the nodes below this one, and lets in those above, who come to `reception`.
    pub(super) fn connect(
        &self,
        reception: &Reception,
        guest: &mut Guest,
    ) -> Result<Vec<Option<Connection>>> {
        let (start, own) = (Instant::now(), self.invitation.node);
        let queue = Queue(Mutex::new(Some(NodeId::all(own.number()).collect())));
        let (sender, called) = mpsc::channel();
        let mut connections: Vec<Option<Connection>> = self.cards.iter().map(|_| None).collect();
        thread::scope(|scope| {
            for _ in 0..own.index().min(CALLS) {
                let (queue, sender, waker) = (&queue, sender.clone(), reception.waker());
                let call = move || self.call_all(queue, &sender, &waker);
                let thread = thread::Builder::new().name("pangea calling".to_owned());
                thread.spawn_scoped(scope, call).map_err(Error::os("starting a thread"))?;
            }
            let result = (|| {
                while let Some(missing) = self.missing(&connections) {
                    while let Ok((peer, result)) = called.try_recv() {
                        connections[peer.index()] = Some(result?);
                    }
                    guest.check()?;
                    if Instant::now() >= self.deadline {
                        let waiting_for = format!("{} to call", self.name(missing));
                        return Err(Error::TimedOut { waiting_for, after: start.elapsed() });
                    }
                    if let Some(Ok(caller)) = reception.next() {
                        self.admit(caller, &mut connections)?;
                    }
                }
                Ok(())
            })();
            // After an error nobody else need be called, nor called on.
            queue.close();
            result
        })?;
        Ok(connections)
    }

    fn missing(&self, connections: &[Option<Connection>]) -> Option<NodeId> {
        let mut peers = NodeId::all(self.invitation.nodes);
        peers.find(|peer| *peer != self.invitation.node && connections[peer.index()].is_none())
    }

    fn name(&self, node: NodeId) -> String {
        format!("{node} ({})", self.cards[node.index()].label)
    }

    /// Calls the nodes in `queue`, one after another, until it is gone.
    fn call_all(&self, queue: &Queue, sender: &Sender<Called>, waker: &Waker) {
        while let Some(peer) = queue.next() {
            // Once there was an error nobody listens.
            _ = sender.send((peer, self.call(peer, &|| queue.is_over())));
            waker.wake();
        }
    }

    /// Calls `peer` at all of its addresses, until one is its own. It has listened since before its
    /// card was told: an address that is silent stays so, one that answers slowly is that of a node
    /// with much to do.
    fn call(&self, peer: NodeId, is_over: &dyn Fn() -> bool) -> Result<Connection> {
        let addresses = self.addresses(peer)?;
        let unanswered = |address: &SocketAddr| (*address, "no answer yet".to_owned());
        let mut tried: BTreeMap<_, _> = addresses.iter().map(unanswered).collect();
        let mut calls = 0;
        let mut race = Race::new(addresses, PATIENCE)?;
        while let Some((address, called)) = race.next(self.deadline, is_over) {
            let stream = match called {
                Ok(stream) => stream,
                Err(error) => {
                    tried.insert(address, error.to_string());
                    continue;
                }
            };
            calls += 1;
            match self.introduce(stream, peer) {
                Ok(connection) => return Ok(connection),
                Err(error) => {
                    let may_change = match error {
                        Error::TimedOut { .. } => true,
                        Error::Os { .. } => calls < CALLS_CUT_OFF_MAX,
                        _ => false,
                    };
                    tried.insert(address, describe(&error));
                    if may_change {
                        race.again(address);
                    }
                }
            }
        }
        let tried: Vec<_> =
            tried.iter().map(|(address, how)| format!("{address}: {how}")).collect();
        let tried =
            if tried.is_empty() { "it has no address".to_owned() } else { tried.join("; ") };
        let (name, label) = (self.name(peer), &self.cards[peer.index()].label);
        let reason = format!(
            "cannot reach {name}: {tried}; every node calls those below it by TCP, at any port: \
             let that through the firewall of {label}, or name other addresses in {ADDRESSES}"
        );
        Err(Error::JoinFailed { reason })
    }

    /// Where to call `peer`, the nearest address first.
    fn addresses(&self, peer: NodeId) -> Result<Vec<SocketAddr>> {
        let own = interfaces::addresses()?;
        let card = &self.cards[peer.index()];
        let is_here =
            self.is_loopback || card.host == self.cards[self.invitation.node.index()].host;
        let mut addresses = card.addresses.clone();
        // The loopback of another host is this one's.
        addresses.retain(|address| is_here || !address.ip().is_loopback());
        addresses.sort_by_key(|address| nearness(address.ip(), &own));
        addresses.reverse();
        Ok(addresses)
    }

    /// Shakes hands with whoever has answered, and asks whether it is `peer`.
    fn introduce(&self, stream: TcpStream, peer: NodeId) -> Result<Connection> {
        let deadline = self.deadline.min(Instant::now() + PATIENCE);
        let mut channel = noise::call(stream, &self.invitation.terms, deadline)?;
        let introduction = message::encode_introduction(self.invitation.node, peer);
        let deadline = self.deadline.min(Instant::now() + PATIENCE);
        channel.send(&introduction, deadline)?;
        let answer = channel.receive(message::SAID_LEN_MAX, deadline)?;
        match message::decode_said(&answer)? {
            Ok(_) => channel.into_connection(),
            Err(reason) => Err(Error::JoinFailed { reason }),
        }
    }

    /// Lets in a node that calls this one; who calls again has lost its first connection.
    fn admit(&self, caller: Caller, connections: &mut [Option<Connection>]) -> Result {
        let Caller { mut channel, message } = caller;
        let deadline = self.deadline.min(Instant::now() + PATIENCE);
        let own = self.invitation.node;
        let introduction = message::decode_introduction(&message);
        let is_meant = |(node, called): &(NodeId, NodeId)| {
            *called == own && *node > own && node.index() < connections.len()
        };
        let Some((node, _)) = introduction.ok().filter(is_meant) else {
            let reason = format!("this is {own}, who expects the nodes above it to call");
            // Who calls the wrong node tries its next address.
            _ = channel.send(&message::encode_said(Err(&reason)), deadline);
            return Ok(());
        };
        if channel.send(&message::encode_said(Ok(&[])), deadline).is_ok() {
            connections[node.index()] = Some(channel.into_connection()?);
        }
        Ok(())
    }
}

/// How near `address` is: loopback is nearest, then what has most in common with one of `own`.
fn nearness(address: IpAddr, own: &[IpAddr]) -> u32 {
    if address.is_loopback() {
        return u32::MAX;
    }
    own.iter().map(|own| interfaces::common_bits(*own, address)).max().unwrap_or(0)
}
