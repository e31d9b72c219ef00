//! Who plays: of several senders one is heard, the others are followed until it is their turn.

use std::cmp::Reverse;

use super::decode::Decoder;
use super::output::Counters;
use super::stage::Stage;
use super::{FrontConfig, Source};
use crate::MotionError;

/// Senders that are followed; of more, the one that was silent for longest is forgotten, of the host with the
/// most where that has more than a few.
const MOST: usize = 16;
const FEW: usize = 4;
/// A sender takes over after so long (nanoseconds) of consistent frames, when the player has been silent for so long.
const CONSISTENT: i64 = 1_000_000_000;
const SILENT: i64 = 2_000_000_000;
/// Frames farther apart than this do not follow each other.
const PAUSE: i64 = 250_000_000;
/// One sender leaves its ports behind. When so many datagrams within so long (nanoseconds) come from one of the last
/// few that were left, there are two.
const LEFT: usize = 8;
const RETURNS: u32 = 5;
const WITHIN: i64 = 1_000_000_000;

/// A sender as it is told of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SenderState {
    /// What the caller calls it.
    pub name: String,
    /// Whether it is the one that is heard.
    pub plays: bool,
    /// Good frames that came from it.
    pub frames: u64,
    /// Arrival of its last datagram, nanoseconds.
    pub last_ns: i64,
}

/// One sender: its own decoder, body and clock.
pub(super) struct Session {
    name: String,
    decoder: Decoder,
    pub(super) stage: Stage,
    /// Good frames so far; since when they have followed each other; the last one; the last datagram.
    frames: u64,
    since_ns: i64,
    frame_ns: i64,
    last_ns: i64,
    ports: Ports,
}

/// The ports that a host sends from.
#[derive(Default)]
struct Ports {
    newest: Option<u16>,
    left: [Option<u16>; LEFT],
    returns: u32,
    since_ns: i64,
}

impl Ports {
    /// A datagram from this port; true where the host has more than one sender.
    fn hear(&mut self, port: Option<u16>, arrival_ns: i64) -> bool {
        if self.newest == port {
            return false;
        }
        if port.is_some() && self.left.contains(&port) {
            if arrival_ns.saturating_sub(self.since_ns) > WITHIN {
                (self.returns, self.since_ns) = (0, arrival_ns);
            }
            self.returns += 1;
        }
        if self.newest.is_some() {
            self.left.rotate_right(1);
            self.left[0] = self.newest;
        }
        self.newest = port;
        self.returns >= RETURNS
    }
}

impl Session {
    fn new(source: Source, config: FrontConfig, name: &str) -> Result<Self, MotionError> {
        Ok(Self {
            name: name.to_owned(),
            decoder: Decoder::new(source),
            stage: Stage::new(source, config)?,
            frames: 0,
            since_ns: 0,
            frame_ns: i64::MIN,
            last_ns: i64::MIN,
            ports: Ports::default(),
        })
    }

    /// Decodes a datagram and hands what it holds to the stage; true where it held a good frame.
    pub(super) fn take(&mut self, datagram: &[u8], arrival_ns: i64, counters: &mut Counters) -> bool {
        self.stage.clear();
        self.last_ns = arrival_ns;
        if !self
            .decoder
            .decode(datagram, arrival_ns, &mut self.stage, counters)
        {
            return false;
        }
        if arrival_ns.saturating_sub(self.frame_ns) > PAUSE {
            self.since_ns = arrival_ns;
        }
        self.frames += 1;
        self.frame_ns = arrival_ns;
        true
    }

    pub(super) fn left_out(&self) -> Option<&'static str> {
        self.decoder.left_out()
    }

    /// Whether `who` is this sender's name or the host in it.
    fn is(&self, who: &str) -> bool {
        self.name == who || is_host(&self.name, who)
    }
}

/// Whether `who` is the host of a sender, `host:port`; in brackets or not where that is an IPv6 address.
fn is_host(sender: &str, who: &str) -> bool {
    let bare = |host: &str| host.trim_matches(['[', ']']) == who.trim_matches(['[', ']']);
    sender != who && sender.contains(':') && bare(host_of(sender))
}

/// What is before the last colon, where there is one.
fn host_of(sender: &str) -> &str {
    sender.rsplit_once(':').map_or(sender, |(host, _)| host)
}

pub(super) struct Senders {
    source: Source,
    config: FrontConfig,
    /// Never empty; a nameless one stands in until somebody comes.
    sessions: Vec<Session>,
    /// Index of the one that plays.
    player: usize,
    /// False before the first good frame.
    playing: bool,
    wanted: Option<String>,
    /// Whether several send from the host that is wanted.
    crowded: bool,
    /// What is counted of senders that do not play.
    elsewhere: Counters,
}

impl Senders {
    pub(super) fn new(source: Source, config: FrontConfig) -> Result<Self, MotionError> {
        let mut nobody = Session::new(source, config, "")?;
        nobody.stage.play(true);
        Ok(Self {
            source,
            config,
            sessions: vec![nobody],
            player: 0,
            playing: false,
            wanted: None,
            crowded: false,
            elsewhere: Counters::default(),
        })
    }

    pub(super) fn reset(&mut self) {
        if let Ok(fresh) = Self::new(self.source, self.config) {
            let wanted = self.wanted.take();
            *self = Self { wanted, ..fresh };
        }
    }

    pub(super) fn player(&self) -> &Session {
        &self.sessions[self.player]
    }

    pub(super) fn player_mut(&mut self) -> &mut Session {
        &mut self.sessions[self.player]
    }

    pub(super) fn states(&self) -> Vec<SenderState> {
        let state = |(i, s): (usize, &Session)| SenderState {
            name: s.name.clone(),
            plays: self.playing && i == self.player,
            frames: s.frames,
            last_ns: s.last_ns,
        };
        let known = self
            .sessions
            .iter()
            .enumerate()
            .filter(|(_, s)| s.last_ns > i64::MIN);
        let mut states: Vec<_> = known.map(state).collect();
        states.sort_by_key(|s| !s.plays);
        states
    }

    pub(super) fn listen_to(&mut self, sender: Option<&str>) -> bool {
        self.wanted = sender.map(str::to_owned);
        self.crowded = false;
        let Some(who) = sender else { return true };
        let found = self.newest(who);
        match found {
            Some(i) if !(self.playing && i == self.player) => self.hand_over(i),
            Some(_) => {}
            None => {
                // Somebody who has not come yet: until then nobody plays, nor is anybody tried on.
                self.sessions[self.player].stage.play(false);
                self.playing = false;
            }
        }
        found.is_some()
    }

    /// The session of `who`: of several the one that plays, or else the newest.
    fn newest(&self, who: &str) -> Option<usize> {
        let known = self.sessions.iter().enumerate().filter(|(_, s)| s.is(who));
        let newest = known.max_by_key(|(i, s)| (self.playing && *i == self.player, s.last_ns));
        newest.map(|(i, _)| i)
    }

    fn hand_over(&mut self, to: usize) {
        self.sessions[self.player].stage.play(false);
        self.player = to;
        self.playing = true;
        self.sessions[to].stage.play(true);
    }

    /// Takes a datagram; the player's session where it was the player's.
    pub(super) fn take(
        &mut self,
        datagram: &[u8],
        arrival_ns: i64,
        sender: &str,
        counters: &mut Counters,
    ) -> Option<&mut Session> {
        let index = self.session(sender, arrival_ns)?;
        let allowed = self
            .wanted
            .as_deref()
            .is_none_or(|who| self.sessions[index].is(who));
        if !self.playing && allowed {
            // Whoever comes is tried on; with the first good frame it plays.
            if !self.sessions[index].stage.plays() {
                self.hand_over(index);
            }
            self.playing = self.sessions[index].take(datagram, arrival_ns, counters);
            return Some(&mut self.sessions[index]);
        }
        if self.playing && index == self.player {
            self.sessions[index].take(datagram, arrival_ns, counters);
            return Some(&mut self.sessions[index]);
        }
        counters.ignored += 1;
        let session = &mut self.sessions[index];
        let good = session.take(datagram, arrival_ns, &mut self.elsewhere);
        let steady = good && arrival_ns.saturating_sub(session.since_ns) >= CONSISTENT;
        let silent = arrival_ns.saturating_sub(self.sessions[self.player].frame_ns) >= SILENT;
        if allowed && steady && silent {
            self.hand_over(index);
        }
        None
    }

    /// The session of a sender, a new one where it was not heard before. All that comes from a host that is wanted is
    /// one sender's, for a network may give each datagram another port, until it is seen that there are several.
    fn session(&mut self, sender: &str, arrival_ns: i64) -> Option<usize> {
        let wanted = self.wanted.as_deref().filter(|who| is_host(sender, who));
        let mut found = wanted.filter(|_| !self.crowded).and_then(|who| self.newest(who));
        if let (Some(one), true) = (found, wanted.is_some()) {
            let port = sender.rsplit_once(':').and_then(|(_, port)| port.parse().ok());
            self.crowded = self.sessions[one].ports.hear(port, arrival_ns);
        }
        if self.crowded || found.is_none() {
            found = self.sessions.iter().position(|s| s.name == sender);
        }
        if found.is_some() {
            return found;
        }
        let new = Session::new(self.source, self.config, sender).ok()?;
        if self.sessions.len() < MOST {
            self.sessions.push(new);
            return Some(self.sessions.len() - 1);
        }
        let others = self
            .sessions
            .iter()
            .enumerate()
            .filter(|(i, _)| *i != self.player);
        let crowd = |s: &Session| {
            let names = self.sessions.iter().map(|other| other.name.as_str());
            let of_host = |name: &&str| host_of(name) == host_of(&s.name);
            names.chain([sender]).filter(of_host).count().max(FEW)
        };
        // The many ports of one host must not push others out.
        let oldest = others.min_by_key(|(_, s)| (Reverse(crowd(s)), s.last_ns));
        let oldest = oldest.map(|(i, _)| i)?;
        self.sessions[oldest] = new;
        Some(oldest)
    }
}
