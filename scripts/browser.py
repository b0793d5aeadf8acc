"""Chromium for tests of pages: told what to do over a pair of pipes."""
import base64, json, os, subprocess


class Browser:
    """Chromium, told what to do over a pair of pipes."""

    def __init__(self, folder):
        (theirs, self.out), (self.into, back) = os.pipe(), os.pipe()
        flags = "--headless=new --no-sandbox --disable-gpu --remote-debugging-pipe --hide-scrollbars --no-first-run"
        # It reads what is open as 3, and answers into 4.
        shell = f'exec chromium {flags} --user-data-dir="$0/browser" about:blank 3<&{theirs} 4>&{back}'
        self.process = subprocess.Popen(
            ["bash", "-c", shell, folder], pass_fds=(theirs, back), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        os.close(theirs), os.close(back)
        self.count, self.rest, self.events = 0, b"", []

    def ask(self, method, session=None, **parameters):
        self.count += 1
        message = dict(id=self.count, method=method, params=parameters)
        if session:
            message["sessionId"] = session
        os.write(self.out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.hear()
            if answer.get("id") == self.count:
                assert "error" not in answer, (method, answer)
                return answer["result"]
            self.events.append(answer)

    def hear(self):
        while b"\0" not in self.rest:
            part = os.read(self.into, 1 << 20)
            assert part, "the browser has gone"
            self.rest += part
        message, self.rest = self.rest.split(b"\0", 1)
        return json.loads(message)

    def value(self, session, text):
        result = self.ask("Runtime.evaluate", session, expression=text, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def open(self, address, form):
        target = self.ask("Target.createTarget", url="about:blank", newWindow=True)["targetId"]
        session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable", session)
        colours, media = form.pop("colours"), form.pop("media", "screen")
        self.ask("Emulation.setEmulatedMedia", session, media=media, features=[dict(name="prefers-color-scheme", value=colours)])
        self.ask("Emulation.setDeviceMetricsOverride", session, **form)
        self.ask("Page.navigate", session, url=address)
        return session

    def picture(self, session, path, whole=False):
        clip = {}
        if whole:
            size = self.ask("Page.getLayoutMetrics", session)["cssContentSize"]
            clip = dict(captureBeyondViewport=True, clip=dict(size, scale=1))
        shot = self.ask("Page.captureScreenshot", session, format="png", **clip)["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(shot))
