// chuck anticip.ck, then: pyanticip live --rig rig.toml
SinOsc sine => Gain voice => Gain dry => Gain out;
SawOsc left => LPF filter => Gain rough => voice;
SawOsc right => filter;
SawOsc fifth => filter;
SinOsc beat => blackhole;
Gain notes => dry;
dry => DelayL early => Gain room => out; // a small room: two echoes with feedback
dry => DelayL later => room;
early => Gain again => early;
later => Gain more => later;
out => Pan2 pan => dac;
0.2 => left.gain => right.gain;
47 => beat.freq;
37::ms => early.max => early.delay;
53::ms => later.max => later.delay;
0.6 => again.gain => more.gain;
0 => voice.gain;

float now_[8]; // the eight parameters as received
float glide[8]; // the same, smoothed
[0.3, 0., 0.5, 0., 0., 0.2, 0.5, 0.] @=> now_;
for (0 => int i; i < 8; i++) now_[i] => glide[i];
time heard; // when the last frame came
time onsetOff, phraseOff; // when the event that was cancelled last was due
now - 1::hour => heard;
heard => onsetOff => phraseOff;
[0, 3, 5, 7, 10] @=> int scale[];

fun void listen() {
    OscIn in;
    OscMsg m;
    9000 => in.port;
    in.listenAll();
    while (true) {
        in => now;
        while (in.recv(m)) {
            if (m.address == "/anticip/params") {
                for (0 => int i; i < 8; i++) m.getFloat(i) => now_[i];
                now => heard;
            }
            else if (m.address == "/anticip/event/onset")
                spork ~ strike(m.getFloat(0), m.getFloat(1)::second, 24, 0.5::second);
            else if (m.address == "/anticip/event/phrase")
                spork ~ strike(m.getFloat(0), m.getFloat(1)::second, 12, 2::second);
            else if (m.address == "/anticip/event/onset/cancel")
                now + m.getFloat(0)::second => onsetOff;
            else if (m.address == "/anticip/event/phrase/cancel")
                now + m.getFloat(0)::second => phraseOff;
        }
    }
}

// An event: waits until it is due, then plays the nearest note of the pentatonic scale on D.
fun void strike(float strength, dur ahead, int up, dur decay) {
    now + ahead => time due;
    ahead => now;
    phraseOff => time off;
    if (up == 24) onsetOff => off;
    if (off > due - 60::ms && off < due + 60::ms) return;
    Math.round(now_[0] * 15) $ int => int step;
    Std.mtof(38 + up + 12 * (step / 5) + scale[step % 5]) => float freq;
    SinOsc low => ADSR env => notes;
    SinOsc high => ADSR quick => notes;
    freq => low.freq;
    freq * 2.76 => high.freq;
    strength * 0.15 => low.gain => high.gain;
    env.set(1::ms, decay, 0, 1::ms);
    quick.set(1::ms, decay / 2, 0, 1::ms);
    env.keyOn();
    quick.keyOn();
    decay => now;
    env =< notes;
    quick =< notes;
}

spork ~ listen();
0. => float alive => float moving;
while (true) { // control rate: once a millisecond
    for (0 => int i; i < 8; i++) glide[i] + (now_[i] - glide[i]) * 0.05 => glide[i];
    Std.mtof(38 + 36 * glide[0]) => float freq;
    freq => sine.freq;
    freq * 0.998 => left.freq;
    freq * 1.002 => right.freq;
    freq * 1.5 => fifth.freq;
    0.15 * glide[4] => fifth.gain;
    Math.min(12000, freq * Math.pow(2, 1 + 4 * glide[2])) => filter.freq;
    1 + 0.5 * glide[3] * beat.last() => rough.gain;
    0.2 * glide[1] * glide[1] => voice.gain;
    0. => float lives => float moves;
    if (now - heard < 2::second) 1 => lives; // silent when nothing comes for 2 s
    if (now_[1] > 0.001) 1 => moves; // notes are silent while the loudness is zero
    alive + (lives - alive) * 0.02 => alive;
    moving + (moves - moving) * 0.03 => moving;
    moving => notes.gain;
    alive => out.gain;
    0.12 * glide[5] => room.gain;
    2 * glide[6] - 1 => pan.pan;
    1::ms => now;
}
