; csound anticip.csd (with JACK: csound -+rtaudio=jack -odac:system:playback_ anticip.csd), then:
; pyanticip live --rig rig.toml
<CsoundSynthesizer>
<CsOptions>
-odac -b256 -B1024 --use-system-sr
</CsOptions>
<CsInstruments>
sr = 48000              ; with JACK, its rate
ksmps = 32
nchnls = 2
0dbfs = 1

giEarly = 1280 / sr     ; latency of the buffers (-b and -B), seconds: notes start that much earlier
giOsc OSCinit 9000
gkPitch init 0.3
gkLoudness init 0
gkBrightness init 0.5
gkRoughness init 0
gkDensity init 0
gkSpace init 0.2
gkPan init 0.5
gkSince init 10         ; seconds since the last frame
gkOff init -1           ; when the onset that was cancelled last was due
gkPhraseOff init -1
gaNotes init 0

instr 1 ; receives OSC
  kNow times
  gkSince = gkSince + 1 / kr
  kPulse init 0
  kStrength init 0
  kAhead init 0
frames:
  kGot OSClisten giOsc, "/anticip/params", "ffffffff", gkPitch, gkLoudness, gkBrightness, gkRoughness, gkDensity, gkSpace, gkPan, kPulse
  if kGot == 1 then
    gkSince = 0
    kgoto frames
  endif
onsets:
  kGot OSClisten giOsc, "/anticip/event/onset", "ff", kStrength, kAhead
  if kGot == 1 then
    event "i", 3, 0, kAhead + 0.1, kStrength, kAhead, 24, 0.5
    kgoto onsets
  endif
phrases:
  kGot OSClisten giOsc, "/anticip/event/phrase", "ff", kStrength, kAhead
  if kGot == 1 then
    event "i", 3, 0, kAhead + 0.1, kStrength, kAhead, 12, 2
    kgoto phrases
  endif
cancels:
  kGot OSClisten giOsc, "/anticip/event/onset/cancel", "f", kAhead
  if kGot == 1 then
    gkOff = kNow + kAhead
    kgoto cancels
  endif
phrasecancels:
  kGot OSClisten giOsc, "/anticip/event/phrase/cancel", "f", kAhead
  if kGot == 1 then
    gkPhraseOff = kNow + kAhead
    kgoto phrasecancels
  endif
endin

instr 3 ; an event: waits until it is due, unless it is cancelled
  kNow times
  iNow times
  kOff = (p6 == 24 ? gkOff : gkPhraseOff)
  if abs(kOff - iNow - p5) < 0.06 then
    turnoff
  elseif kNow >= iNow + p5 - giEarly then
    event "i", 4, 0, p7, p4, p6
    turnoff
  endif
endin

instr 4 ; plays the nearest note of the pentatonic scale on D
  iStep = round(i(gkPitch) * 15)
  iDegree table iStep % 5, 2
  iFreq = cpsmidinn(38 + p5 + 12 * int(iStep / 5) + iDegree)
  aEnv expseg 0.001, 0.001, p4, p3 - 0.001, 0.001
  aLow oscili aEnv, iFreq
  aHigh oscili aEnv * aEnv, iFreq * 2.76
  gaNotes = gaNotes + 0.15 * (aLow + aHigh)
endin

instr 2 ; the voice, and the output
  kAlive portk (gkSince < 2 ? 1 : 0), 0.06
  kMoving portk (gkLoudness > 0.001 ? 1 : 0), 0.03
  kPitch portk gkPitch, 0.015
  kLoudness portk gkLoudness, 0.012
  kBright portk gkBrightness, 0.015
  kRough portk gkRoughness, 0.015
  kDensity portk gkDensity, 0.03
  kSpace portk gkSpace, 0.04
  kPan portk gkPan, 0.015
  kFreq = cpsmidinn(38 + 36 * kPitch)
  aSine oscili 1, kFreq
  aSaw1 vco2 0.2, kFreq * 0.998
  aSaw2 vco2 0.2, kFreq * 1.002
  aFifth vco2 0.15, kFreq * 1.5
  aBeat oscili 0.5 * kRough, 47
  aSaws moogladder aSaw1 + aSaw2 + kDensity * aFifth, min(12000, kFreq * powoftwo(1 + 4 * kBright)), 0.2
  aVoice = (aSine + aSaws * (1 + aBeat)) * 0.2 * kLoudness * kLoudness
  aDry = (aVoice + gaNotes * kMoving) * kAlive
  clear gaNotes
  aWetL, aWetR freeverb aDry, aDry, 0.6, 0.5
  kWet = 0.2 * kSpace
  aLeft = (aDry * (1 - kWet) + aWetL * kWet) * sqrt(2 * (1 - kPan))
  aRight = (aDry * (1 - kWet) + aWetR * kWet) * sqrt(2 * kPan)
  outs clip(aLeft, 0, 0.9), clip(aRight, 0, 0.9)
endin
</CsInstruments>
<CsScore>
f 2 0 -5 -2 0 3 5 7 10
i 1 0 36000
i 2 0 36000
</CsScore>
</CsoundSynthesizer>
