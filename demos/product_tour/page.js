/** The page around the tour: live figures from the player's own receipts, and the product being talked about. */

const tour = document.querySelector('product-tour');
const out = Object.fromEntries(
  Array.from(document.querySelectorAll('[data-live]'), (element) => [element.dataset.live, element]),
);

const ms = (value) => `${Math.abs(value) < 0.05 ? '0' : value.toFixed(1)} ms`;
let allowed = 0; // a picture comes out on a sync mark, so at most this many tokens after its place

function figures() {
  const { reveals, judged, sameFrame, tokenDriftMax, skewMs } = tour.stats;
  out.reveals.textContent = reveals || '–';
  out.drift.textContent = reveals ? `${tokenDriftMax} of ${allowed} allowed` : '–';
  out.skew.textContent = judged ? `${ms(skewMs.last)} / ${ms(skewMs.max)}` : '–';
  out.same.textContent = judged ? `${sameFrame} of ${judged}` : '–';
}

function mark(product) {
  for (const item of document.querySelectorAll('.range li')) {
    if (item.dataset.product === product) item.setAttribute('aria-current', 'true');
    else item.removeAttribute('aria-current');
  }
}

tour.addEventListener('tour-start', ({ detail }) => {
  allowed = detail.sync_interval - 1;
  mark('');
  figures();
});
tour.addEventListener('tour-reveal', ({ detail }) => {
  figures();
  mark(detail.product);
});
tour.addEventListener('tour-missed', ({ detail }) => detail.product && mark(detail.product));
tour.addEventListener('tour-interrupt', () => mark(''));
tour.addEventListener('tour-end', () => {
  figures();
  mark('');
});
