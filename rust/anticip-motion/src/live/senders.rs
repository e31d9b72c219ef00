//! Selection of the active sender: one is played, the others are tracked until they take over.

use std::cmp::Reverse;

use super::decode::Decoder;
use super::output::Counters;
use super::stage::Stage;
use super::{FrontConfig, Source};
use crate::MotionError;

/// Senders that are tracked at most. A new one replaces the one that was silent for longest, of the host with the
/// most senders.
const MAX_SENDERS: usize = 16;
/// Hosts with up to this many senders count as equally crowded there.
const FAIR_SHARE: usize = 4;
/// Time (nanoseconds) of consecutive frames after which a sender may take over.
const TAKEOVER_NS: i64 = 1_000_000_000;
/// Time (nanoseconds) that the active sender must be silent before another takes over.
const SILENCE_NS: i64 = 2_000_000_000;
/// Frames farther apart than this (nanoseconds) are not consecutive.
const MAX_FRAME_GAP_NS: i64 = 250_000_000;
/// Number of ports a sender has left that are remembered. A single sender does not return to them.
const REMEMBERED_PORTS: usize = 8;
/// Datagrams from remembered ports within `RETURN_WINDOW_NS` that show a second sender on the host.
const PORT_RETURNS: u32 = 5;
/// Window (nanoseconds) in which those datagrams are counted.
const RETURN_WINDOW_NS: i64 = 1_000_000_000;

/// State of one sender, for display.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SenderState {
    /// Name that the caller gave it.
    pub name: String,
    /// Whether it is the active sender.
    pub is_active: bool,
    /// Number of valid frames.
    pub frames: u64,
    /// Arrival of the last datagram, nanoseconds.
    pub last_arrival_ns: i64,
}

/// One sender with its own decoder, body and clock.
pub(super) struct Session {
    name: String,
    decoder: Decoder,
    pub(super) stage: Stage,
    /// Number of valid frames.
    frames: u64,
    /// Arrival of the first of the current run of consecutive frames.
    run_start_ns: i64,
    /// Arrival of the last valid frame.
    frame_ns: i64,
    /// Arrival of the last datagram.
    last_arrival_ns: i64,
    ports: Ports,
}

/// Ports that a host has sent from.
#[derive(Default)]
struct Ports {
    newest: Option<u16>,
    previous: [Option<u16>; REMEMBERED_PORTS],
    returns: u32,
    /// Start of the window in which `returns` are counted.
    window_ns: i64,
}

impl Ports {
    /// Records a datagram from `port`; returns true if the host has more than one sender.
    fn record(&mut self, port: Option<u16>, arrival_ns: i64) -> bool {
        if self.newest == port {
            return false;
        }
        if port.is_some() && self.previous.contains(&port) {
            if arrival_ns.saturating_sub(self.window_ns) > RETURN_WINDOW_NS {
                (self.returns, self.window_ns) = (0, arrival_ns);
            }
            self.returns += 1;
        }
        if self.newest.is_some() {
            self.previous.rotate_right(1);
            self.previous[0] = self.newest;
        }
        self.newest = port;
        self.returns >= PORT_RETURNS
    }
}

impl Session {
    fn new(source: Source, config: FrontConfig, name: &str) -> Result<Self, MotionError> {
        Ok(Self {
            name: name.to_owned(),
            decoder: Decoder::new(source),
            stage: Stage::new(source, config)?,
            frames: 0,
            run_start_ns: 0,
            frame_ns: i64::MIN,
            last_arrival_ns: i64::MIN,
            ports: Ports::default(),
        })
    }

    /// Decodes a datagram and passes its content to the stage; returns true if it held a valid frame.
    pub(super) fn receive(&mut self, datagram: &[u8], arrival_ns: i64, counters: &mut Counters) -> bool {
        self.stage.clear();
        self.last_arrival_ns = arrival_ns;
        if !self
            .decoder
            .decode(datagram, arrival_ns, &mut self.stage, counters)
        {
            return false;
        }
        if arrival_ns.saturating_sub(self.frame_ns) > MAX_FRAME_GAP_NS {
            self.run_start_ns = arrival_ns;
        }
        self.frames += 1;
        self.frame_ns = arrival_ns;
        true
    }

    pub(super) fn unplayed_reason(&self) -> Option<&'static str> {
        self.decoder.unplayed_reason()
    }

    /// Whether `selector` is this sender's name or its host.
    fn matches(&self, selector: &str) -> bool {
        self.name == selector || is_host(&self.name, selector)
    }
}

/// Whether `host` is the host of a sender `host:port`; an IPv6 address may be in brackets.
fn is_host(sender: &str, host: &str) -> bool {
    let is_same = |other: &str| other.trim_matches(['[', ']']) == host.trim_matches(['[', ']']);
    sender != host && sender.contains(':') && is_same(host_of(sender))
}

/// The part before the last colon, or all of it.
fn host_of(sender: &str) -> &str {
    sender.rsplit_once(':').map_or(sender, |(host, _)| host)
}

pub(super) struct Senders {
    source: Source,
    config: FrontConfig,
    /// Never empty: a nameless placeholder is active until the first sender comes.
    sessions: Vec<Session>,
    /// Index of the active session.
    active: usize,
    /// False before the first valid frame.
    has_active: bool,
    /// Name or host that the front end is restricted to.
    selected: Option<String>,
    /// Whether several senders share the selected host.
    host_is_shared: bool,
    /// Counts of senders that are not active.
    inactive_counters: Counters,
}

impl Senders {
    pub(super) fn new(source: Source, config: FrontConfig) -> Result<Self, MotionError> {
        let mut placeholder = Session::new(source, config, "")?;
        placeholder.stage.activate(0);
        Ok(Self {
            source,
            config,
            sessions: vec![placeholder],
            active: 0,
            has_active: false,
            selected: None,
            host_is_shared: false,
            inactive_counters: Counters::default(),
        })
    }

    pub(super) fn reset(&mut self) {
        if let Ok(fresh) = Self::new(self.source, self.config) {
            let selected = self.selected.take();
            *self = Self { selected, ..fresh };
        }
    }

    pub(super) fn active(&self) -> &Session {
        &self.sessions[self.active]
    }

    pub(super) fn active_mut(&mut self) -> &mut Session {
        &mut self.sessions[self.active]
    }

    pub(super) fn states(&self) -> Vec<SenderState> {
        let state = |(i, s): (usize, &Session)| SenderState {
            name: s.name.clone(),
            is_active: self.has_active && i == self.active,
            frames: s.frames,
            last_arrival_ns: s.last_arrival_ns,
        };
        let known = self
            .sessions
            .iter()
            .enumerate()
            .filter(|(_, s)| s.last_arrival_ns > i64::MIN);
        let mut states: Vec<_> = known.map(state).collect();
        states.sort_by_key(|s| !s.is_active);
        states
    }

    pub(super) fn listen_to(&mut self, sender: Option<&str>) -> bool {
        self.selected = sender.map(str::to_owned);
        self.host_is_shared = false;
        let Some(selector) = sender else { return true };
        let found = self.find(selector);
        match found {
            Some(i) if !(self.has_active && i == self.active) => self.activate(i),
            Some(_) => {}
            None => {
                // The sender has not come yet: until then none is active.
                self.sessions[self.active].stage.deactivate();
                self.has_active = false;
            }
        }
        found.is_some()
    }

    /// Index of the session that `selector` names: of several the active one, or else the newest.
    fn find(&self, selector: &str) -> Option<usize> {
        let matching = self
            .sessions
            .iter()
            .enumerate()
            .filter(|(_, s)| s.matches(selector));
        let newest = matching.max_by_key(|(i, s)| (self.has_active && *i == self.active, s.last_arrival_ns));
        newest.map(|(i, _)| i)
    }

    fn activate(&mut self, index: usize) {
        // Each sender has a grid of its own; the numbers of what is output go on.
        let next = self.sessions[self.active].stage.deactivate();
        self.active = index;
        self.has_active = true;
        self.sessions[index].stage.activate(next);
    }

    /// Takes a datagram; returns the active session if it came from the active sender.
    pub(super) fn receive(
        &mut self,
        datagram: &[u8],
        arrival_ns: i64,
        sender: &str,
        counters: &mut Counters,
    ) -> Option<&mut Session> {
        let index = self.session_index(sender, arrival_ns)?;
        let is_allowed = self
            .selected
            .as_deref()
            .is_none_or(|selector| self.sessions[index].matches(selector));
        if !self.has_active && is_allowed {
            // Any sender is tried; with its first valid frame it becomes the active one.
            if !self.sessions[index].stage.is_active {
                self.activate(index);
            }
            self.has_active = self.sessions[index].receive(datagram, arrival_ns, counters);
            return Some(&mut self.sessions[index]);
        }
        if self.has_active && index == self.active {
            self.sessions[index].receive(datagram, arrival_ns, counters);
            return Some(&mut self.sessions[index]);
        }
        counters.ignored += 1;
        let session = &mut self.sessions[index];
        let is_valid = session.receive(datagram, arrival_ns, &mut self.inactive_counters);
        let is_steady = is_valid && arrival_ns.saturating_sub(session.run_start_ns) >= TAKEOVER_NS;
        let is_silent = arrival_ns.saturating_sub(self.sessions[self.active].frame_ns) >= SILENCE_NS;
        if is_allowed && is_steady && is_silent {
            self.activate(index);
        }
        None
    }

    /// Index of a sender's session, which is created for a new sender. All datagrams of a selected host belong to one
    /// sender, because a network may change the port with each datagram, until several senders are detected there.
    fn session_index(&mut self, sender: &str, arrival_ns: i64) -> Option<usize> {
        let host = self.selected.as_deref().filter(|host| is_host(sender, host));
        let mut found = host
            .filter(|_| !self.host_is_shared)
            .and_then(|host| self.find(host));
        if let (Some(index), true) = (found, host.is_some()) {
            let port = sender.rsplit_once(':').and_then(|(_, port)| port.parse().ok());
            self.host_is_shared = self.sessions[index].ports.record(port, arrival_ns);
        }
        if self.host_is_shared || found.is_none() {
            found = self.sessions.iter().position(|s| s.name == sender);
        }
        if found.is_some() {
            return found;
        }
        let new = Session::new(self.source, self.config, sender).ok()?;
        if self.sessions.len() < MAX_SENDERS {
            self.sessions.push(new);
            return Some(self.sessions.len() - 1);
        }
        let others = self
            .sessions
            .iter()
            .enumerate()
            .filter(|(i, _)| *i != self.active);
        let host_senders = |s: &Session| {
            let names = self.sessions.iter().map(|other| other.name.as_str());
            let same_host = |name: &&str| host_of(name) == host_of(&s.name);
            names.chain([sender]).filter(same_host).count().max(FAIR_SHARE)
        };
        // Many ports of one host must not evict other hosts.
        let evicted = others.min_by_key(|(_, s)| (Reverse(host_senders(s)), s.last_arrival_ns));
        let evicted = evicted.map(|(i, _)| i)?;
        self.sessions[evicted] = new;
        Some(evicted)
    }
}
