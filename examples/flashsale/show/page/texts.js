'use strict';
// What people read, in two languages: lang/en.js and lang/zh.js, which the program reads too.

const texts = {};
const tongues = { en: 'English', zh: '中文' };

// The language is the one that was chosen here, or that of -lang, or the first of the browser's that is known.
const asked = [remembered(), new URLSearchParams(location.search).get('lang'), ...navigator.languages.map((l) => l.slice(0, 2))];
let lang = asked.find((l) => l in tongues) || 'en';

// remembered returns the language that was chosen, or remembers one.
function remembered(chosen) {
  try {
    if (chosen) localStorage.setItem('lang', chosen);
    return localStorage.getItem('lang');
  } catch { // a file, in some browsers
    return null;
  }
}

// t returns a text, with values for what is in {braces}. One that depends on the number n has two forms, "one|many".
function t(key, args = {}) {
  let text = texts[lang][key] ?? key.replace(/^\w+\./, '');
  const [one, many] = text.split('|');
  if (many !== undefined && args.n !== undefined) text = String(args.n) === '1' ? one : many;
  return text.replace(/\{(\w+)\}/g, (all, name) => args[name] ?? all);
}

// told returns a text that the program has sent.
const told = (text) => t(text.k, text.a);

// fillTexts writes the texts that stand in the page.
function fillTexts() {
  document.documentElement.lang = lang === 'zh' ? 'zh-CN' : lang;
  document.title = t('page.title');
  for (const e of document.querySelectorAll('[data-t]')) e.textContent = t(e.dataset.t);
  for (const e of document.querySelectorAll('[data-t-label]')) e.setAttribute('aria-label', t(e.dataset.tLabel));
  const other = lang === 'zh' ? 'en' : 'zh', button = document.getElementById('tongue');
  button.textContent = tongues[other];
  button.lang = other;
  button.onclick = () => {
    lang = other;
    remembered(other);
    fillTexts();
    tell([], { lanes: true, said: true, points: true, end: true, lang: true });
  };
}
