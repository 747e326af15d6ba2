//! What a peer says of others: that they are lost.

use std::ptr::NonNull;

use super::*;

/// A node that there is not.
const NOBODY: [u64; 3] = [3, 1 << 16, u64::MAX];

fn lost(number: u64) -> Vec<u8> {
    bytes(Head { offset: number, ..Head::new(Kind::Lost) }, &[])
}

/// That its sender leaves, as that node has died.
fn goodbye(died: u64) -> Vec<u8> {
    bytes(Head { offset: died + 1, ..Head::new(Kind::Goodbye) }, &[])
}

impl Stage {
    /// Has the hostile peer accuse a node in vain, in both ways.
    fn accuse_in_vain(&mut self, number: u64) {
        let before = self.agent.roster.epoch();
        for _ in 0..100 {
            self.say(HOSTILE, &lost(number)).unwrap();
            self.say(HOSTILE, &goodbye(number)).unwrap();
        }
        assert_eq!(self.agent.roster.epoch(), before, "nothing has changed");
        assert!(self.heard(HONEST).is_empty(), "and nobody is told");
    }
}

#[test]
fn who_is_said_to_be_lost_is_lost_and_nothing_else_happens() {
    for accusation in [lost, goodbye] {
        let mut stage = Stage::new();
        let region = Head { key: 99, offset: 1, ..Head::new(Kind::Region) };
        stage.say(HONEST, &bytes(region, &(1_u64 << 40).to_le_bytes())).unwrap();
        let at = RemoteAddr { node: HONEST, region: Region(1), offset: 0 };
        let mut target = [CANARY; 64];
        stage.post(1, Op::Read { source: at, target: NonNull::from(&mut target[..]) });
        stage.post(2, Op::FetchAdd { target: at, addend: 1 });
        let before = stage.agent.roster.epoch();
        (0..10).for_each(|_| stage.say(HOSTILE, &accusation(2)).unwrap());
        assert_eq!(stage.agent.roster.epoch(), before + 1, "it is lost once");
        assert!(stage.agent.has_lost(HONEST) && !stage.agent.has_lost(HOSTILE));
        let is_lost =
            |result: &Result<u64>| matches!(result, Err(Error::PeerLost { node: HONEST, .. }));
        let ended: Vec<u64> = stage.ended.iter().map(|(token, _)| token.0).collect();
        assert_eq!(ended, [1, 2], "what was asked of it ends, once");
        assert!(stage.ended.iter().all(|(_, result)| is_lost(result)));
        let told = stage.heard(HOSTILE);
        assert_eq!(
            told.iter().map(|(head, _)| (head.kind, head.offset)).collect::<Vec<_>>(),
            [(Kind::Lost, 2)]
        );
        assert_eq!(target, [CANARY; 64]);
        assert!(stage.own().iter().all(|byte| *byte == CANARY), "nothing is written");
    }
}

#[test]
fn a_node_survives_being_told_that_it_is_lost_itself() {
    let mut stage = Stage::new();
    stage.accuse_in_vain(0);
    stage.check_unharmed();
}

#[test]
fn who_is_lost_cannot_be_lost_again() {
    for departure in [Departure::Died, Departure::Left] {
        let mut stage = Stage::new();
        stage.agent.roster.lose(HONEST, departure);
        let presence = stage.agent.roster.presence(HONEST);
        stage.accuse_in_vain(2);
        assert_eq!(stage.agent.roster.presence(HONEST), presence, "who has left has not died");
    }
}

#[test]
fn who_says_that_it_is_lost_itself_is() {
    for accusation in [lost, goodbye] {
        let mut stage = Stage::new();
        stage.say(HOSTILE, &accusation(1)).unwrap_err();
        assert!(stage.agent.has_lost(HOSTILE));
        stage.check_unharmed();
    }
}

#[test]
fn nodes_that_there_are_not_cannot_be_lost() {
    for number in NOBODY {
        let mut stage = Stage::new();
        stage.say(HOSTILE, &lost(number)).unwrap_err();
        stage.check_unharmed();
        if number < u64::MAX {
            let mut stage = Stage::new();
            stage.say(HOSTILE, &goodbye(number)).unwrap_err();
            stage.check_unharmed();
        }
    }
}

#[test]
fn a_loss_is_told_to_those_only_that_are_heard() {
    let mut stage = Stage::new();
    stage.agent.note_heard(&[HOSTILE]);
    stage.agent.lose(HOSTILE, Departure::Died);
    assert!(stage.heard(HONEST).is_empty(), "perhaps it is this node that hears nothing");
    let mut stage = Stage::new();
    stage.agent.note_heard(&[HONEST]);
    stage.agent.lose(HOSTILE, Departure::Died);
    assert_eq!(stage.heard(HONEST).len(), 1);
}
