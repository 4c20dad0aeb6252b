"""Chromium without a window, driven by its DevTools protocol over a pipe: no driver and no library are needed."""

import base64
import json
import os
import select
import shlex
import shutil
import subprocess
import time

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
PATIENCE = 60  # seconds for any answer


def find():
    """The path of a browser of the Chromium family, or None."""
    return next((path for path in map(shutil.which, NAMES) if path), None)


class Browser:
    """One page at a time, with all that it said to the console and all that it asked from the network."""

    def __init__(self, profile):
        commands, self._write = os.pipe()
        self._read, answers = os.pipe()
        options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"]
        options += ["--no-first-run", "--disable-extensions", "--disable-background-networking"]
        options += ["--force-device-scale-factor=1", f"--user-data-dir={profile}", "--remote-debugging-pipe"]
        # Chromium reads from its file 3 and writes to its file 4; only a shell can say so without threads at risk.
        start = f"exec {shlex.join([find(), *options, 'about:blank'])} 3<&{commands} 4>&{answers}"
        self.process = subprocess.Popen(
            ["bash", "-c", start], pass_fds=(commands, answers), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        os.close(commands)
        os.close(answers)
        self._buffer, self._number, self.session, self.events = b"", 0, None, []
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")

    def close(self):
        try:
            self.session = None
            self.send("Browser.close")
        except (OSError, TimeoutError):
            self.process.kill()
        self.process.wait(PATIENCE)
        os.close(self._write)
        os.close(self._read)

    # -- the protocol -----------------------------------------------------------------------------------------

    def send(self, method, **parameters):
        """Call a method of the protocol and wait for its result."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self.session is not None:
            message["sessionId"] = self.session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while (answer := self._next()).get("id") != self._number:
            self.events.append(answer)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        return answer["result"]

    def _next(self):
        end = time.monotonic() + PATIENCE
        while b"\0" not in self._buffer:
            if not select.select([self._read], [], [], max(0, end - time.monotonic()))[0]:
                raise TimeoutError(f"Chromium did not answer in {PATIENCE} s.")
            part = os.read(self._read, 1 << 20)
            if not part:
                raise OSError("Chromium ended.")
            self._buffer += part
        message, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(message)

    # -- the page ---------------------------------------------------------------------------------------------

    def open(self, path, width=1200, height=900, dark=False, phone=False):
        """Load a file and wait until it has drawn everything."""
        self.look(dark)
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=phone)
        self.send("Emulation.setTouchEmulationEnabled", enabled=phone)
        self.events = []
        self.send("Page.navigate", url=path.absolute().as_uri())
        self.until("document.documentElement?.dataset.ready === 'true'")

    def look(self, dark, medium=""):
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", media=medium, features=[scheme])

    def value(self, expression):
        """What a JavaScript expression has for a value, promises kept."""
        found = self.send("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in found:
            raise RuntimeError(f"{expression}: {found['exceptionDetails']}")
        return found["result"].get("value")

    def until(self, expression):
        end = time.monotonic() + PATIENCE
        while not self.value(expression):
            if time.monotonic() > end:
                raise TimeoutError(f"It never came to be that {expression}; the console: {self.complaints()}")
            time.sleep(0.02)

    def key(self, key, code=0, text=None):
        """Press and release a key."""
        common = {"key": key, "code": key, "windowsVirtualKeyCode": code}
        self.send(
            "Input.dispatchKeyEvent",
            type="keyDown" if text else "rawKeyDown",
            **common,
            **({"text": text} if text else {}),
        )
        self.send("Input.dispatchKeyEvent", type="keyUp", **common)

    def click(self, selector):
        """A real click in the middle of an element."""
        x, y = self.value(f"""(() => {{
            const element = document.querySelector({json.dumps(selector)});
            element.scrollIntoView({{block: "center", behavior: "instant"}});
            const box = element.getBoundingClientRect();
            return [box.x + box.width / 2, box.y + box.height / 2];
        }})()""")
        for kind in ("mousePressed", "mouseReleased"):
            self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def screenshot(self, selector=None):
        """PNG bytes of an element, or of the whole page."""
        self.value("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        box = self.value(f"""(() => {{
            const box = document.querySelector({json.dumps(selector or "html")}).getBoundingClientRect();
            return {{x: box.x + scrollX, y: box.y + scrollY, width: box.width, height: box.height, scale: 1}};
        }})()""")
        found = self.send("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=box)
        return base64.b64decode(found["data"])

    def complaints(self):
        """Errors and warnings of the console, and exceptions nobody caught."""
        self.value("0")  # so that everything said until now has arrived
        found = []
        for event in self.events:
            about = event.get("params", {})
            if event.get("method") == "Runtime.exceptionThrown":
                found.append(str(about["exceptionDetails"]))
            elif event.get("method") == "Log.entryAdded" and about["entry"]["level"] in ("error", "warning"):
                found.append(about["entry"]["text"])
            elif event.get("method") == "Runtime.consoleAPICalled" and about["type"] in ("error", "warning", "assert"):
                found.append(str(about["args"]))
        return found

    def requests(self):
        """Addresses of everything that the page asked for, itself left out."""
        self.value("0")
        sent = [e["params"]["request"]["url"] for e in self.events if e.get("method") == "Network.requestWillBeSent"]
        return [url for url in sent if not url.startswith("data:")][1:]
