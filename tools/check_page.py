#!/usr/bin/env python3
"""Uses every panel of the server's page in headless Chromium, at the widths of a desk and of a phone, light and dark.

    tools/check_page.py --masks DIR [--labels DIR] [--questions DIR] [--program build/release/bin/lshformer] [--pictures DIR]

Needs Debian's chromium, chromium-driver and python3-selenium. The folders are models for masked words (asked for vectors too),
classification and questions. Fails where a panel shows an error or nothing, the console has an error, the page is wider than
the window, or something is loaded from elsewhere. --pictures: a screenshot of each panel.
"""

import argparse
import base64
import os
import re
import subprocess
import sys

from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

WIDTHS = {"desk": (1100, 900), "phone": (360, 740)}


def start(program, words):
    server = subprocess.Popen([program, "serve", "--port", "0", "--enable_inspect", *words], stdout=subprocess.PIPE, text=True)
    line = server.stdout.readline()
    found = re.match(r"listening on (http://\S+)", line)
    if not found:
        sys.exit(f"the server does not start: {line}")
    return server, found.group(1)


def browser(size, dark):
    options = webdriver.ChromeOptions()
    for word in ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--window-size={size[0]},{size[1]}"]:
        options.add_argument(word)
    if dark:
        options.add_argument("--force-dark-mode")
        options.add_argument("--blink-settings=preferredColorScheme=0")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options)
    # A window has a least width; the page is shown at the one that is asked for.
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
                           {"width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": size[0] < 500})
    return driver


def use(driver, panel, expected):
    """Sends the panel's form by the keyboard and gives what it answers."""
    section = driver.find_element(By.ID, panel)
    WebDriverWait(driver, 20).until(lambda _: section.is_displayed())
    field = section.find_element(By.CSS_SELECTOR, "textarea, input")
    field.send_keys(Keys.CONTROL, Keys.ENTER)
    answer = section.find_element(By.CSS_SELECTOR, ".answer")
    WebDriverWait(driver, 60).until(lambda _: answer.text.strip())
    wrong = answer.find_elements(By.CSS_SELECTOR, ".wrong")
    if wrong:
        return f"{panel}: {wrong[0].text}"
    if not answer.find_elements(By.CSS_SELECTOR, expected):
        return f"{panel}: no {expected} in its answer"
    return None


def picture(driver, panel, path):
    """The whole panel, whatever of it is in the window."""
    box = driver.execute_script("const box = document.getElementById(arguments[0]).getBoundingClientRect();"
                                "return [box.x + scrollX, box.y + scrollY, box.width, box.height]", panel)
    clip = dict(zip(["x", "y", "width", "height"], box), scale=1)
    shot = driver.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": True, "clip": clip})
    with open(path, "wb") as file:
        file.write(base64.b64decode(shot["data"]))


def look(driver, url, panels, name, pictures):
    faults = []
    driver.get(url + "/ui")
    for panel, expected in panels:
        fault = use(driver, panel, expected)
        if fault:
            faults.append(fault)
        if pictures:
            picture(driver, panel, os.path.join(pictures, f"{panel}-{name}.png"))
    over = driver.execute_script("return document.documentElement.scrollWidth - document.documentElement.clientWidth")
    if over > 0:
        faults.append(f"the page is {over} pixels wider than the window")
    unlabelled = driver.execute_script(
        "return [...document.querySelectorAll('textarea,input,select')].filter(field => !field.labels.length).map(field => field.id)")
    faults += [f"{field} has no label" for field in unlabelled]
    faults += [entry["message"] for entry in driver.get_log("browser") if entry["level"] == "SEVERE"]
    for entry in driver.get_log("performance"):
        for address in re.findall(r'"requestWillBeSent".*?"url":"(\w+:[^"]*)"', entry["message"]):
            if not address.startswith((url, "data:", "chrome")):
                faults.append(f"loads {address}")
    return faults


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="build/release/bin/lshformer")
    parser.add_argument("--masks", required=True)
    parser.add_argument("--labels")
    parser.add_argument("--questions")
    parser.add_argument("--pictures")
    arguments = parser.parse_args()
    if arguments.pictures:
        os.makedirs(arguments.pictures, exist_ok=True)
    servers = [([arguments.masks, "--task", "fill-mask"], [("fill-mask", "table"), ("inspect", "canvas")]),
               ([arguments.masks, "--task", "feature-extraction"], [("feature-extraction", "table")])]
    if arguments.labels:
        servers.append(([arguments.labels], [("text-classification", "table")]))
    if arguments.questions:
        servers.append(([arguments.questions], [("question-answering", "mark")]))
    failed = False
    for words, panels in servers:
        server, url = start(arguments.program, words)
        try:
            for name, size in WIDTHS.items():
                for dark in [False, True]:
                    driver = browser(size, dark)
                    shown = f"{name}{'-dark' if dark else ''}"
                    faults = look(driver, url, panels, shown, arguments.pictures)
                    driver.quit()
                    print(f"{', '.join(panel for panel, _ in panels)}, {shown}: {'; '.join(faults) or 'as it should be'}")
                    failed = failed or bool(faults)
        finally:
            server.terminate()
            server.wait()
    sys.exit(failed)


if __name__ == "__main__":
    main()
