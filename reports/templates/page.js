(() => {
  "use strict";
  const options = {
    ast: true, // expressions are interpreted, so the page needs no evaluation of text
    actions: false,
    renderer: "svg",
    defaultStyle: false,
    tooltip: { disableDefaultStyle: true },
  };

  async function draw() {
    for (const spec of document.querySelectorAll('script[type="application/json"]')) {
      const figure = document.getElementById(spec.id.replace(/-spec$/, ""));
      await window.vegaEmbed(figure.querySelector(".canvas"), JSON.parse(spec.textContent), options);
    }
    document.documentElement.dataset.charts = "drawn";
  }

  // A link into a folded part opens it; the browser then shows the row.
  function reveal() {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!target) return;
    let folded = false;
    for (let part = target.parentElement; part; part = part.parentElement) {
      if (part.tagName === "DETAILS" && !part.open) {
        part.open = true;
        folded = true;
      }
    }
    if (folded) target.scrollIntoView();
  }

  let opened = [];
  addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("details:not([open])")];
    for (const part of opened) part.open = true;
  });
  addEventListener("afterprint", () => {
    for (const part of opened) part.open = false;
  });

  function markPlace() {
    const links = new Map();
    for (const link of document.querySelectorAll(".toc a")) links.set(link.hash.slice(1), link);
    const seen = new IntersectionObserver(
      (entries) => {
        for (const entry of entries) {
          if (!entry.isIntersecting) continue;
          for (const link of links.values()) link.removeAttribute("aria-current");
          links.get(entry.target.id)?.setAttribute("aria-current", "true");
        }
      },
      { rootMargin: "-10% 0px -80% 0px" },
    );
    for (const id of links.keys()) {
      const part = document.getElementById(id);
      if (part) seen.observe(part);
    }
  }

  addEventListener("hashchange", reveal);
  reveal();
  markPlace();
  draw();
})();
