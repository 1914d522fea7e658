"use strict";
// Each included report is as tall as its content, up to a limit.
for (const frame of document.querySelectorAll("iframe")) {
  const fit = () => {
    const page = frame.contentDocument;
    if (page && page.documentElement) frame.style.height = `${Math.min(page.documentElement.scrollHeight + 4, +frame.dataset.height)}px`;
  };
  frame.addEventListener("load", fit);
  frame.closest("details")?.addEventListener("toggle", fit);
}
for (const video of document.querySelectorAll("video"))
  video.addEventListener("click", () => (video.paused ? video.play() : video.pause()));
