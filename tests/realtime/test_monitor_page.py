"""The monitor's page in a real browser, with a show that plays a real stream."""

import contextlib
import json
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import msgpack
import pytest
from support.browser import CHROMIUM, FITS, Browser
from support.wire import paced, start, tcp_port, udp

from realtime.bench.performer import mocopi_datagrams
from realtime.monitor.process import MonitorProcess
from realtime.programs.demo import DANCE
from realtime.rig import load_rig
from realtime.rig.tree import MonitorRig
from realtime.sockets import free_port

pytestmark = [pytest.mark.slow, pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here")]

PAINTED_VALUES = """(canvas) => {
    const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
    return pixels.reduce((sum, value, i) => sum + (i % 4 === 3 && value > 0), 0);
}"""


@dataclass
class Show:
    """A show with a suit and a monitor: the page's URL, and functions that send the show a signal, and stop
    the suit and the show."""

    url: str
    signal: Callable[[int], None]
    stop_suit: Callable[[], None]
    end: Callable[[], None]


@pytest.fixture
def show(tmp_path: Path) -> Iterator[Show]:
    port, control = free_port(), free_port()
    page = tcp_port()
    (tmp_path / "rig.toml").write_text(f"[control]\nport = {control}\n[[osc]]\nport = {free_port()}\n")
    live = start(
        "live", "--rig", "rig.toml", "--json", "--source", f"mocopi://127.0.0.1:{port}",
        "--monitor", f"127.0.0.1:{page}", cwd=tmp_path,
    )  # fmt: skip
    ended = threading.Event()

    def suit() -> None:
        skeleton, frames = mocopi_datagrams(1500)
        with udp() as out:
            for n in paced(len(frames)):
                if ended.is_set():
                    return
                with contextlib.suppress(ConnectionRefusedError):
                    if n % 50 == 0:
                        out.sendto(skeleton, ("127.0.0.1", port))
                    out.sendto(frames[n], ("127.0.0.1", port))

    assert live.stderr is not None
    line = next(line for line in live.stderr if "monitor at" in line)
    thread = threading.Thread(target=suit)
    thread.start()
    has_ended = threading.Event()

    def end() -> None:
        # A second signal during the fade-out would stop it at once.
        if not has_ended.is_set():
            has_ended.set()
            live.send_signal(signal.SIGHUP)

    yield Show(line.split()[-1], live.send_signal, ended.set, end)
    ended.set()
    thread.join()
    end()
    output, errors = live.communicate(timeout=30)
    assert live.returncode == 0, errors
    assert json.loads(output)["sinks"]["monitor"]["sent"] > 0


@pytest.fixture
def browser(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Browser]:
    """A browser with this width and height, and dark mode if requested."""
    with contextlib.closing(Browser(tmp_path / "profile", *getattr(request, "param", ()))) as made:
        yield made


@pytest.mark.parametrize("browser", [(1200, 800, False), (400, 800, True)], indirect=True)
def test_a_show_is_displayed_and_controlled(show: Show, browser: Browser) -> None:
    browser.open(show.url)
    browser.wait('document.querySelector("#state")?.textContent === "playing"')
    browser.wait('document.querySelector("#light").classList.contains("on")')
    for canvas in ("#body", "#params canvas", "#scalars canvas"):
        browser.wait(f'({PAINTED_VALUES})(document.querySelector("{canvas}")) > 1500')
    # Terms are explained under the pointer.
    words = "[...document.querySelectorAll('#facts dt')].map((e) => [e.textContent, e.title])"
    browser.wait(f"{words}.length > 0")
    assert dict(browser.ask(words))["trust"] == "share of the forecast, against the held value"
    browser.ask(
        """(() => { const e = document.querySelector("#scalars canvas");
        const { x, y } = e.getBoundingClientRect();
        e.dispatchEvent(new PointerEvent("pointermove", { clientX: x + 9, clientY: y + 9 })); })()"""
    )
    assert (
        browser.ask('document.querySelector("#scalars canvas").title')
        == "how settled the course of the movement is"
    )
    assert "expected" in browser.ask("document.querySelector('[data-name=plan] span').title")
    assert browser.ask(FITS), "it is wider than the screen"
    # A screen reader is told the state, but not each value of the lead that the show chooses.
    live = [
        {p["name"]: p["value"].get("value") for p in node["properties"]}.get("live")
        for node in browser.call("Accessibility.getFullAXTree")["nodes"]
        if node["role"]["value"] == "status"
    ]
    assert sorted(live, key=str) == [None] * 3 + ["polite"] * 4
    browser.ask('document.querySelector("#suited").click()')
    browser.wait('document.querySelector("#suits").textContent.includes("27 joints")')
    # A receiver's port stands on one line.
    lines = """(() => { const range = document.createRange();
        const text = document.querySelector("#sinks td").firstChild;
        range.setStart(text, text.data.lastIndexOf(":")); range.setEndAfter(text);
        return range.getClientRects().length; })()"""
    browser.wait('document.querySelector("#sinks td")?.textContent.startsWith("osc ")')
    assert browser.ask(lines) == 1
    # A refusal is shown as such.
    browser.wait('[...document.querySelectorAll("#sinks .bad")].length > 0')
    browser.ask('document.querySelector("[data-switch=freeze]").click()')
    browser.wait('document.querySelector("#state").textContent === "frozen"')
    browser.press("s")
    browser.wait('document.querySelector("#state").textContent === "playing"')
    browser.ask(
        '(() => { const e = document.querySelector("#gain"); e.value = 0.5;'
        ' e.dispatchEvent(new Event("change")); })()'
    )
    browser.wait('document.querySelector("#gain").nextElementSibling.textContent === "0.5"')
    browser.ask(
        '(() => { document.querySelector("#command").value = "gain -1";'
        ' document.querySelector("#do").click(); })()'
    )
    browser.wait('document.querySelector("#answer.bad")?.textContent.includes("expected 0 to 4")')
    # A host alone can be listened to.
    browser.ask(
        '(() => { document.querySelector("#command").value = "source 127.0.0.1";'
        ' document.querySelector("#do").click(); })()'
    )
    browser.wait('document.querySelector("#source").value === "127.0.0.1"')
    browser.press("Escape")
    browser.wait('document.querySelector("#state").textContent === "panic"')
    assert browser.problems == []


def test_a_lost_suit_and_an_ended_show_are_displayed(show: Show, browser: Browser) -> None:
    fact = "[...document.querySelectorAll('#facts div')].find((e) => e.firstChild.textContent === '{}')"
    facts = [f"{fact.format(name)}?.lastChild.textContent" for name in ("rate", "latency")]
    browser.open(show.url)
    for fact_text in facts:
        browser.wait(f"/[0-9]/.test({fact_text})")
    browser.wait('document.querySelector("#senders").textContent.includes("plays")')
    show.stop_suit()
    browser.wait('document.querySelector("#senders").textContent.includes("gone")')
    assert [browser.ask(fact_text) for fact_text in facts] == ["-", "-"]
    assert browser.ask('document.querySelector("#bridged").hidden')
    show.end()
    browser.wait('document.querySelector("#state").textContent === "gone"')
    assert [browser.ask(fact_text) for fact_text in facts] == ["-", "-"]
    assert browser.problems == []


def test_a_show_that_hangs_is_displayed_and_its_return_too(show: Show, browser: Browser) -> None:
    browser.open(show.url)
    browser.wait('document.querySelector("#state")?.textContent === "playing"')
    show.signal(signal.SIGSTOP)
    try:
        browser.wait('document.querySelector("#state").textContent === "no answer"')
    finally:
        show.signal(signal.SIGCONT)
    browser.wait('document.querySelector("#state").textContent === "playing"')


@contextlib.contextmanager
def network(port: int) -> Iterator[tuple[int, Callable[[], None]]]:
    """A port that leads to ``port``, and a function after which its connections, which stay open, carry
    nothing."""
    carried: set[socket.socket] = set()

    def carry(source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                if target in carried:
                    target.sendall(data)
            if target in carried:
                target.shutdown(socket.SHUT_WR)

    with contextlib.ExitStack() as undo:
        listener = undo.enter_context(socket.create_server(("127.0.0.1", 0)))

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    pair = listener.accept()[0], socket.create_connection(("127.0.0.1", port))
                    carried.update(map(undo.enter_context, pair))
                    for one, other in (pair, pair[::-1]):
                        threading.Thread(target=carry, args=(one, other), daemon=True).start()

        threading.Thread(target=serve, daemon=True).start()
        yield listener.getsockname()[1], carried.clear
        listener.shutdown(socket.SHUT_RDWR)


def test_a_page_whose_connection_dies_without_a_close_connects_anew(show: Show, browser: Browser) -> None:
    with network(int(show.url.rstrip("/").rpartition(":")[2])) as (port, cut):
        browser.open(f"http://127.0.0.1:{port}/")
        browser.wait('document.querySelector("#state")?.textContent === "playing"')
        # Each state is kept, as a busy machine may not look while it is shown.
        browser.ask(
            """{ const state = document.querySelector("#state"), keep = () => states.push(state.textContent);
            window.states = [];
            new MutationObserver(keep).observe(state, { childList: true }); }"""
        )
        cut()
        browser.wait('states.includes("no answer") && states.at(-1) === "playing"')
    assert browser.problems == []


def test_a_key_press_acts_at_once_and_once(show: Show, browser: Browser, tmp_path: Path) -> None:
    def is_on(button: str) -> bool:
        shown, told = browser.ask(
            f"""(({{ classList, ariaPressed }}) => [classList.contains("on"), ariaPressed])
            (document.querySelector("{button}"))"""
        )
        assert told == str(bool(shown)).lower()
        return bool(shown)

    def state(word: str) -> None:
        browser.wait(f'document.querySelector("#state")?.textContent === "{word}"')

    def answered(text: str) -> None:
        browser.wait(f'document.querySelector("#answer").textContent.includes("{text}")')

    browser.open(show.url)
    state("playing")
    # A ticked checkbox does not swallow keys.
    browser.ask('document.querySelector("#suited").focus()')
    for _ in range(2):
        browser.press("f")
        assert is_on("[data-switch=freeze]")
        state("frozen")
        browser.press("f")
        assert not is_on("[data-switch=freeze]")
        state("playing")
    for on in (True, False):
        browser.press("b")
        assert is_on("[data-switch=bypass]") == on
    answered("bypass off")
    # A held key counts once.
    for n in range(12):
        browser.call("Input.dispatchKeyEvent", type="keyDown", key="r", autoRepeat=n > 0)
    answered("record/start take-")
    browser.call("Input.dispatchKeyEvent", type="keyUp", key="r")
    browser.press("r")
    answered("record/stop take-")
    assert len(list(tmp_path.glob("take-*.anticip"))) == 1
    # Sliders keep working with keys.
    browser.ask('document.querySelector("#gain").focus()')
    for _ in range(3):
        browser.call("Input.dispatchKeyEvent", type="keyDown", key="ArrowRight", windowsVirtualKeyCode=39)
    answered("gain 1.15")
    assert browser.ask("document.activeElement.id") == "gain"
    # A name of digits stays a string. There is something to save 1.7 s after the first frame.
    browser.wait("performance.now() > 6000")
    browser.ask(
        '(() => { const e = document.querySelector("#command"); e.closest("details").open = true;'
        ' e.value = "memory/save 2026"; e.focus(); })()'
    )
    browser.press("Enter")
    answered("2026.memory")
    # Kinds without files are hidden; of the others the first file is selected.
    browser.ask('document.querySelector("#files").open = true')
    chosen = (
        "[...document.querySelectorAll('#files .row')].filter((e) => e.offsetParent)"
        ".map((e) => e.querySelector('select').value).join()"
    )
    browser.wait(f"{chosen} === 'rig.toml,2026.memory'")
    assert browser.problems == []
    # After the show is gone, no values are shown any more.
    show.end()
    state("gone")
    facts = "[...document.querySelectorAll('#facts dd')].map((e) => e.textContent)"
    assert browser.ask(facts)[3:8] == ["-"] * 5


def test_a_page_without_remote_control_and_a_refused_page_say_so(browser: Browser, tmp_path: Path) -> None:
    port = tcp_port()

    def monitor(token: str) -> MonitorProcess:
        rig = MonitorRig(enabled=True, port=port, token=token)
        return MonitorProcess(rig, None, dict, lambda line: None, folder=tmp_path)

    process = monitor("one")
    try:
        browser.open(process.url)
        browser.wait('document.querySelector("#notice")?.textContent === "view only"')
        assert browser.ask('document.querySelector("#panic").disabled')
        assert not browser.ask('document.querySelector("#suited").disabled')
        process.close()
        browser.wait('document.querySelector("#state").textContent === "gone"')
        process = monitor("two")
        browser.wait(
            'document.querySelector("#notice").textContent.includes("open the address, with its token")'
        )
        assert browser.ask('document.querySelector("#state").textContent') == "no connection"
    finally:
        process.close()


def test_a_file_is_called_one_and_cannot_be_selected_as_a_suit(browser: Browser, tmp_path: Path) -> None:
    (tmp_path / "rig.toml").write_text(f"[control]\nport = {free_port()}\n[[osc]]\nport = {free_port()}\n")
    replay = start(
        "replay", str(DANCE), "--rig", "rig.toml", "--monitor", f"127.0.0.1:{tcp_port()}", cwd=tmp_path
    )
    try:
        assert replay.stderr is not None
        browser.open(next(line for line in replay.stderr if "monitor at" in line).split()[-1])
        browser.wait("document.querySelector('#senders td')?.textContent === 'a file'")
        assert browser.ask("document.querySelector('#source').textContent") == "any sender"
    finally:
        replay.terminate()
        replay.communicate(timeout=30)


@pytest.mark.parametrize("browser", [(390, 844)], indirect=True)
def test_many_outputs_with_long_names_fit_a_phone_and_are_drawn_once(
    browser: Browser, tmp_path: Path
) -> None:
    names = [f"{n}_{'x' * 46}"[:48] for n in range(20)]
    process = MonitorProcess(
        MonitorRig(enabled=True, port=tcp_port()), None, dict, lambda line: None, folder=tmp_path
    )

    def send_frame(seq: int) -> None:
        frame = {"seq": seq, "seconds": 0.0, "state": "playing", "scalars": [0.5] * 7, "params": [0.5] * 8}
        frame |= {"extras": dict.fromkeys(names, 0.5), "events": [["cue/" + names[0], 1.0, 0.1]]}
        frame |= {"tempo": [0.0] * 3, "trust": [], "place": None, "gate": None, "way_ms": 1.0, "heard": []}
        frame |= dict.fromkeys(("pose", "root", "forecast"), b"")
        with udp() as out:
            out.sendto(msgpack.packb(frame), ("127.0.0.1", process.port))

    try:
        browser.open(process.url)
        browser.wait('document.querySelector("#notice")?.textContent === "view only"')
        keys = [[f"shape/taught/{name}/invert", "T", None, [False]] for name in names]
        outputs = [f"taught/{name}" for name in names]
        rig = {"outputs": outputs, "receivers": [], "file": None, "parts": {}, "keys": keys}
        process.write(json.dumps({"rig": rig}).encode() + b"\n")
        browser.wait('document.querySelectorAll("#mapping meter").length === 20')
        send_frame(1)
        browser.wait('document.querySelector("#state").textContent === "playing"')
        # Two lines of text for each of 28 outputs and the events.
        browser.wait('document.querySelector("#params canvas").clientHeight > 29 * 30')
        assert browser.ask(FITS)
        # What has not changed is not drawn again.
        browser.ask(
            """{ const { prototype } = CanvasRenderingContext2D, clear = prototype.clearRect;
            window.drawn = 0;
            prototype.clearRect = function (...box) { window.drawn += 1; clear.apply(this, box); }; }"""
        )
        frames = """new Promise((done) => { let n = 0; const next = () => { n += 1;
            if (n < 10) requestAnimationFrame(next); else done(window.drawn); }; next(); })"""
        assert browser.ask(frames) == browser.ask(frames)
        before = browser.ask("window.drawn")
        send_frame(2)
        browser.wait(f"window.drawn > {before}")
        assert browser.problems == []
    finally:
        process.close()


@pytest.mark.parametrize("browser", [(390, 844)], indirect=True)
def test_the_mapping_is_edited_and_saved(show: Show, browser: Browser, tmp_path: Path) -> None:
    rig = tmp_path / "rig.toml"
    rig.write_text("# Mine.\n" + rig.read_text())

    def fill(key: str, value: str, which: int = 0) -> None:
        browser.ask(
            f"""(() => {{ const e = document.querySelectorAll('[data-key="{key}"]')[{which}];
            e.checked = "{value}" === "true"; e.value = "{value}";
            e.dispatchEvent(new Event("change")); }})()"""
        )

    def mapping_shows(text: str) -> None:
        browser.wait(f'document.querySelector("#mapped").textContent.includes({json.dumps(text)})')

    browser.open(show.url)
    browser.wait('document.querySelector("#state")?.textContent === "playing"')
    browser.wait('document.querySelectorAll("#mapping details").length > 20')
    browser.ask('document.querySelector("[data-name=pan]").open = true')
    assert browser.ask(FITS)
    fill("shape/pan/invert", "true")
    mapping_shows("rig/shape/pan/invert True")
    fill("shape/pan/in", "0.9")
    fill("shape/pan/in", "0.4", 1)
    mapping_shows("rig: shape.pan.in: expected 0 <= low < high <= 1, got 0.9, 0.4")
    # A refused value is reset.
    browser.wait("""document.querySelectorAll('[data-key="shape/pan/in"]')[1].value === "1" """)
    fill("osc/0/addresses/pan", "/n_set 1000 pan")
    mapping_shows("rig/osc/0/addresses/pan /n_set 1000 pan")
    fill("osc/0/send/limbs", "false")
    mapping_shows("rig/osc/0/send/limbs False")
    # A button that is held while the body moves learns the range of the output.
    browser.ask('document.querySelector("[data-name=brightness]").open = true')
    button = 'document.querySelector("[data-learn=brightness]")'
    browser.ask(f"{button}.scrollIntoView({{ block: 'center' }})")
    box = browser.ask(f"{button}.getBoundingClientRect().toJSON()")
    mouse = {"x": box["x"] + 5, "y": box["y"] + 5, "button": "left", "clickCount": 1}
    browser.call("Input.dispatchMouseEvent", type="mousePressed", **mouse)
    mapping_shows("learn/brightness move")
    time.sleep(3)
    browser.call("Input.dispatchMouseEvent", type="mouseReleased", **mouse)
    mapping_shows("learn/brightness 0")
    (tmp_path / "other.toml").write_text("gain = 0.25\n[silence]\nhold = 9.0\n")
    browser.ask('document.querySelector("#save").click()')
    mapping_shows("rig/save rig.toml")
    # Another rig of the folder is applied, and keys that need a restart are reported.
    browser.ask('document.querySelector("#files").open = true')
    choice = 'document.querySelector("[data-kind=rigs]")'
    browser.wait(f"[...{choice}.options].map((o) => o.value).join() === 'other.toml,rig.toml'")
    browser.ask(f"{choice}.value = 'other.toml'")
    browser.ask("document.querySelector(\"[data-load='rig/load']\").click()")
    browser.wait('document.querySelector("#answer").textContent.includes("needs a restart")')
    assert "silence" in browser.ask('document.querySelector("#answer").textContent')
    browser.wait('document.querySelector("#gain").nextElementSibling.textContent === "0.25"')
    browser.wait("""!document.querySelector('[data-key="shape/pan/invert"]').checked""")
    assert browser.problems == []
    saved = load_rig(rig)
    assert rig.read_text().startswith("# Mine.\n")
    assert (saved.shape["pan"].invert, saved.shape["pan"].span) == (True, (0.9, 1.0))
    assert saved.osc[0].addresses["pan"] == ("/n_set", 1000, "pan")
    assert "limbs" not in saved.osc[0].send
    low, high = saved.shape["brightness"].span
    assert 0.0 <= low < high <= 1.0 != high - low
