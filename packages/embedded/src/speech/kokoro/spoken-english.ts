import { cardinal, numeral, ordinal, plural, spelled, year } from "./number-words.ts";
import type { Accent } from "./kokoro-addon.ts";

/**
 * Writes out everything that is not read as it is written: numbers, dates, times, money, units, abbreviations and URLs. What remains are
 * letters, spaces and punctuation. The order of the rules matters: each removes what later ones would misread.
 */
export function spokenEnglish(text: string, accent: Accent): string {
  const written = rules.reduce((rest, rule) => rule(rest, accent), text);
  return written
    .replaceAll(/[^A-Za-z'\-.,;:!?"()\n ]+/g, " ")
    .replaceAll(/(?<![A-Za-z])-|-(?![A-Za-z])/g, " ")
    .replaceAll(/ +(?=[.,;:!?](?:\s|$))/g, "")
    .replaceAll(/ {2,}/g, " ")
    .trim();
}

type Rule = (text: string, accent: Accent) => string;

const monthNames = "January February March April May June July August September October November December".split(" ");
const month =
  "(Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?|Sept?(?:ember)?|Oct(?:ober)?|Nov(?:ember)?|Dec(?:ember)?)";
const number = String.raw`\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?`;

function monthName(start: string): string {
  return monthNames.find((name) => name.startsWith(start.slice(0, 3))) ?? start;
}

/** URLs, email addresses and file names: their dots are spoken. */
const addresses: Rule = (text) =>
  text
    .replaceAll(/\b[a-z]+:\/\/(?=\w)/gi, "")
    .replaceAll(
      /(?<![\w.])(?:[\w-]+\.)+(?:com|org|net|io|dev|ai|app|co|uk|edu|gov|info|de|eu|us|ca|me|tv|ts|js|json|py|md|txt|html|pdf|yaml|yml|csv|exe|zip)\b(?:[/:][\w./?#%~-]*[\w/])?/gi,
      (address) => address.replaceAll(/[^A-Za-z0-9]/g, (sign) => ` ${addressSigns[sign] ?? ""} `),
    );

const addressSigns: Readonly<Record<string, string>> = {
  ".": "dot",
  "/": "slash",
  "-": "dash",
  _: "underscore",
  ":": "colon",
  "?": "question mark",
};

const latin: Rule = (text) =>
  text
    .replaceAll(/\be\.\s?g\.,?/gi, "for example,")
    .replaceAll(/\bi\.\s?e\.,?/gi, "that is,")
    .replaceAll(/\betc\b\.?(?=\s*(\S?))/gi, (_, next: string) => (next === "" || /[A-Z]/.test(next) ? "et cetera." : "et cetera"))
    .replaceAll(/\bvs\b\.?/gi, "versus")
    .replaceAll(/\bapprox\./gi, "approximately");

const titles: Readonly<Record<string, string>> = {
  Dr: "Doctor",
  Mr: "Mister",
  Mrs: "Missus",
  Ms: "Miz",
  Prof: "Professor",
  Capt: "Captain",
  Lt: "Lieutenant",
  Col: "Colonel",
  Gen: "General",
  Sgt: "Sergeant",
  Rev: "Reverend",
  Hon: "Honorable",
  Sen: "Senator",
  Gov: "Governor",
  St: "Saint",
};

const endings: Readonly<Record<string, string>> = {
  Jr: "Junior",
  Sr: "Senior",
  Inc: "Incorporated",
  Ltd: "Limited",
  Corp: "Corporation",
  Co: "Company",
  Dept: "Department",
  Ave: "Avenue",
  Blvd: "Boulevard",
  Rd: "Road",
  St: "Street",
  Mt: "Mount",
  Ft: "Fort",
};

const abbreviations: Rule = (text) =>
  text
    // "St." after a name is a street, before one a saint.
    .replaceAll(/(?<=[A-Z]\w* )St\.(?=\s+[A-Z])/g, "Street.")
    .replaceAll(/\b(?:([A-Z][a-z]+)\.|(Dr|Mr|Mrs|Ms|Prof))(?=\s+[A-Z])/g, (whole, dotted?: string, bare?: string) => {
      const word = dotted ?? bare ?? "";
      return Object.hasOwn(titles, word) ? (titles[word] ?? whole) : whole;
    })
    .replaceAll(/\b([A-Z][a-z]{1,3})\.(?=\s*(\S?))/g, (whole, word: string, next: string) => {
      const full = Object.hasOwn(endings, word) ? endings[word] : undefined;
      if (full === undefined) return whole;
      return next === "" || /[A-Z"\n]/.test(next) ? `${full}.` : full;
    })
    .replaceAll(/\b(?:No|Nos|no)\.\s?(?=\d)/g, "number ")
    .replaceAll(/\b(Mon|Tue|Tues|Wed|Thu|Thur|Thurs|Fri|Sat|Sun)\.(?=,?\s)/g, (_, day: string) => days[day.slice(0, 3)] ?? day)
    .replaceAll(new RegExp(String.raw`\b${month}\.(?=\s\d)`, "g"), (_, name: string) => monthName(name))
    .replaceAll(
      /\b([ap])\.\s?m\.?(?=\s*(\S?))/gi,
      (_, half: string, next: string) => `${half.toUpperCase()}M${/[A-Z]/.test(next) ? "." : ""}`,
    )
    // Letters with dots between them are spelled: U.S.A.
    .replaceAll(/\b(?:[A-Za-z]\.){2,}/g, (letters) => letters.replaceAll(".", "").toUpperCase());

const days: Readonly<Record<string, string>> = {
  Mon: "Monday",
  Tue: "Tuesday",
  Wed: "Wednesday",
  Thu: "Thursday",
  Fri: "Friday",
  Sat: "Saturday",
  Sun: "Sunday",
};

const kings =
  "Henry|Elizabeth|Louis|Charles|George|Edward|Richard|James|William|Philip|Pius|Paul|Benedict|Catherine|Frederick|Nicholas|Alexander";
const roman: Readonly<Record<string, string>> = {
  II: "2",
  III: "3",
  IV: "4",
  V: "5",
  VI: "6",
  VII: "7",
  VIII: "8",
  IX: "9",
  X: "10",
  XIV: "14",
  XVI: "16",
};

const romanNumbers: Rule = (text, accent) =>
  text
    .replaceAll(new RegExp(String.raw`\b(${kings}) ([IVX]{1,4})\b(?!')`, "g"), (whole, name: string, letters: string) => {
      const digits = letters === "I" ? undefined : roman[letters];
      return digits === undefined ? whole : `${name} the ${ordinal(digits, accent)}`;
    })
    .replaceAll(
      /\b(War|Chapter|Part|Volume|Book|Act|Phase|Type|Section|Class|Grade|Stage) ([IVX]{2,4}|V|X)\b/g,
      (whole, name: string, letters: string) => {
        const digits = roman[letters];
        return digits === undefined ? whole : `${name} ${cardinal(digits, accent)}`;
      },
    );

const signsOfMoney: Readonly<Record<string, readonly [one: string, many: string, part: string, parts: string]>> = {
  $: ["dollar", "dollars", "cent", "cents"],
  dollar: ["dollar", "dollars", "cent", "cents"],
  euro: ["euro", "euros", "cent", "cents"],
  pound: ["pound", "pounds", "penny", "pence"],
};

const money: Rule = (text, accent) => {
  const said = (amount: string, kind: string, scale = ""): string => {
    const [one, many, part, parts] = signsOfMoney[kind] ?? ["", "", "", ""];
    if (scale !== "") return `${numeral(amount, accent)} ${scales[scale.toLowerCase()] ?? scale} ${many}`;
    const [whole = "", fraction] = amount.replaceAll(",", "").split(".");
    const isOne = Number(whole) === 1;
    const front = `${cardinal(whole, accent)} ${isOne ? one : many}`;
    if (fraction === undefined || Number(fraction) === 0) return front;
    if (fraction.length !== 2) return `${numeral(amount, accent)} ${many}`;
    const back = `${cardinal(fraction, accent)} ${Number(fraction) === 1 ? part : parts}`;
    return Number(whole) === 0 ? back : `${front} and ${back}`;
  };
  return text
    .replaceAll(
      new RegExp(String.raw`\$\s?(${number})(?:\s?(thousand|million|billion|trillion|[KMB]\b|bn\b))?`, "gi"),
      (_, amount: string, scale?: string) => ` ${said(amount, "$", scale)}`,
    )
    .replaceAll(new RegExp(String.raw`(?<![\d.])(\d+(?:,\d{3})*\.\d{2}) (dollar|euro|pound)s\b`, "g"), (_, amount: string, kind: string) =>
      said(amount, kind),
    );
};

const scales: Readonly<Record<string, string>> = { k: "thousand", m: "million", b: "billion", bn: "billion" };

const dates: Rule = (text, accent) => {
  const day = (digits: string): string => ordinal(digits, accent);
  const named = (monthNumber: number, dayDigits: string, yearDigits: string): string =>
    accent === "british"
      ? `the ${day(dayDigits)} of ${monthNames[monthNumber - 1]} ${year(yearDigits, accent)}`
      : `${monthNames[monthNumber - 1]} ${day(dayDigits)}, ${year(yearDigits, accent)}`;
  const isDate = (monthNumber: number, dayNumber: number): boolean =>
    monthNumber >= 1 && monthNumber <= 12 && dayNumber >= 1 && dayNumber <= 31;
  return text
    .replaceAll(/(?<![\d-])(\d{4})-(\d{2})-(\d{2})(?:T(?=\d)|(?![\d-]))/g, (whole, y: string, m: string, d: string) =>
      isDate(Number(m), Number(d)) ? `${named(Number(m), d, y)} ` : whole,
    )
    .replaceAll(/(?<![\d/])(\d{1,2})\/(\d{1,2})\/(\d{4})(?![\d/])/g, (whole, first: string, second: string, y: string) => {
      const [m, d] = accent === "british" ? [second, first] : [first, second];
      if (isDate(Number(m), Number(d))) return named(Number(m), d, y);
      return isDate(Number(d), Number(m)) ? named(Number(d), m, y) : whole;
    })
    .replaceAll(
      new RegExp(String.raw`\b${month} (\d{1,2})(?:st|nd|rd|th)?\b(?![:\d])(?:,? (\d{4})\b)?`, "g"),
      (_, name: string, d: string, y?: string) => {
        return `${monthName(name)} ${day(d)}${y === undefined ? "" : `, ${year(y, accent)}`}`;
      },
    )
    .replaceAll(
      new RegExp(String.raw`\b(\d{1,2})(?:st|nd|rd|th)?(?: of)? ${month}\b(?: (\d{4})\b)?`, "g"),
      (_, d: string, name: string, y?: string) => {
        return `the ${day(d)} of ${monthName(name)}${y === undefined ? "" : ` ${year(y, accent)}`}`;
      },
    )
    .replaceAll(/\bthe the\b/gi, "the");
};

const decades: Rule = (text, accent) =>
  text
    .replaceAll(/\b(1[1-9]|20)(\d0)'?s\b/g, (_, century: string, decade: string) => plural(year(`${century}${decade}`, accent)))
    .replaceAll(/'([2-9]0)s\b/g, (_, decade: string) => plural(cardinal(decade, accent)));

const times: Rule = (text, accent) =>
  text
    .replaceAll(
      /(?<![\d:])(\d{1,2}):([0-5]\d)(?::([0-5]\d))?(?![\d:])\s?([ap]m\b)?/gi,
      (whole, h: string, m: string, s?: string, half?: string) => {
        if (Number(h) > 24) return whole;
        const hour = cardinal(h, accent);
        const onTheHour = half === undefined ? (Number(h) > 12 || h.startsWith("0") ? "hundred" : "o'clock") : "";
        const minute = m === "00" ? onTheHour : m.startsWith("0") ? `oh ${cardinal(m, accent)}` : cardinal(m, accent);
        const second = s === undefined ? "" : ` and ${cardinal(s, accent)} seconds`;
        return `${hour} ${minute}${second}${half === undefined ? " " : ` ${half.toUpperCase()}`}`;
      },
    )
    .replaceAll(/\b(\d{1,2})\s?([ap]m)\b/gi, (_, h: string, half: string) => `${cardinal(h, accent)} ${half.toUpperCase()}`);

const units: readonly (readonly [sign: string, one: string, many: string])[] = [
  ["km/h", "kilometer per hour", "kilometers per hour"],
  ["m/s", "meter per second", "meters per second"],
  ["Mb/s", "megabit per second", "megabits per second"],
  ["km", "kilometer", "kilometers"],
  ["cm", "centimeter", "centimeters"],
  ["mm", "millimeter", "millimeters"],
  ["kg", "kilogram", "kilograms"],
  ["mg", "milligram", "milligrams"],
  ["ml", "milliliter", "milliliters"],
  ["lbs?", "pound", "pounds"],
  ["oz", "ounce", "ounces"],
  ["ft", "foot", "feet"],
  ["mph", "mile per hour", "miles per hour"],
  ["kHz", "kilohertz", "kilohertz"],
  ["MHz", "megahertz", "megahertz"],
  ["GHz", "gigahertz", "gigahertz"],
  ["Hz", "hertz", "hertz"],
  ["[kK]B", "kilobyte", "kilobytes"],
  ["MB", "megabyte", "megabytes"],
  ["GB", "gigabyte", "gigabytes"],
  ["TB", "terabyte", "terabytes"],
  ["kW", "kilowatt", "kilowatts"],
  ["ms", "millisecond", "milliseconds"],
  ["min", "minute", "minutes"],
  ["hrs?", "hour", "hours"],
  ["sec", "second", "seconds"],
  ["s", "second", "seconds"],
  ["m", "meter", "meters"],
  ["g", "gram", "grams"],
];

const measures: Rule = (text, accent) => {
  const withUnits = units.reduce(
    (rest, [sign, one, many]) =>
      rest.replaceAll(
        new RegExp(String.raw`(?<![\w.,])(${number})${sign.length === 1 ? "" : " ?"}${sign}(?![\w/'])`, "g"),
        (_, amount: string) => `${numeral(amount, accent)} ${amount === "1" ? one : many}`,
      ),
    text,
  );
  return withUnits
    .replaceAll(/\bdegrees\s+C\b/g, "degrees Celsius")
    .replaceAll(/\bdegrees\s+F\b/g, "degrees Fahrenheit")
    .replaceAll(/(?<=\d)\s?%/g, " percent")
    .replaceAll(/#\s?(?=\d)/g, "number ");
};

const groups: Rule = (text, accent) =>
  text
    .replaceAll(/\b(\d[\d,]*)(?:st|nd|rd|th)\b/gi, (_, digits: string) => ordinal(digits.replaceAll(",", ""), accent))
    // Telephone numbers and IP addresses.
    .replaceAll(/(?<![\w.])\(?(\d{3})\)?[ .-](\d{3})[.-](\d{4})(?![\w-])/g, (_, ...parts: string[]) =>
      parts.slice(0, 3).map(spelled).join(", "),
    )
    .replaceAll(/(?<![\w.-])(\d{3})-(\d{4})(?![\w-])/g, (_, ...parts: string[]) => parts.slice(0, 2).map(spelled).join(", "))
    .replaceAll(/(?<![\d.])\d+(?:\.\d+){2,}(?!\w)/g, (version) => {
      const parts = version.split(".").map((part) => cardinal(part, accent));
      return ` ${parts.join(parts.length === 4 ? " dot " : " point ")}`;
    })
    .replaceAll(/(?<![\w/])([1-9]) ?\/ ?([2-9]|10)(?![\w/])/g, (_, top: string, bottom: string) => {
      const part = bottom === "2" ? "half" : bottom === "4" ? "quarter" : ordinal(bottom, accent);
      return `${cardinal(top, accent)} ${top === "1" ? part : bottom === "2" ? "halves" : `${part}s`}`;
    })
    .replaceAll(/(?<=[\d%])\s?-\s?(?=\d)/g, " to ")
    .replaceAll(/(?<=\d)\s?[*x]\s?(?=\d)/g, " by ")
    .replaceAll(/(?<![\w)])-(?=\d)/g, " minus ");

const plainNumbers: Rule = (text, accent) =>
  text
    // Without a comma, such a number is usually a year.
    .replaceAll(/(?<![\w.,$])(1[1-9]\d\d|20\d\d)(?!\w|[.,]\d)/g, (digits) => year(digits, accent))
    .replaceAll(new RegExp(String.raw`(?<!\w)\.(\d+)`, "g"), (_, fraction: string) => `point ${spelled(fraction)}`)
    .replaceAll(new RegExp(number, "g"), (digits) => ` ${numeral(digits, accent)} `);

const signs: Rule = (text) =>
  text
    .replaceAll(/\b([CF])#/g, "$1 sharp")
    .replaceAll(/(?<=\w)\s?\/\s?(?=\w)/g, " slash ")
    .replaceAll(/\band slash or\b/gi, "and or");

const dots: Rule = (text) =>
  text
    .replaceAll(/(?<=[A-Za-z])\.(?=[A-Za-z])/g, " dot ")
    // A sentence that began with a digit now begins with a word, which needs a capital.
    .replaceAll(
      /(?<=[.!?]["')]*\s+)(?:zero|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|thirt|fift|sixt|twent|fort|eight|ninet)/g,
      (word) => word.replace(/^./, (letter) => letter.toUpperCase()),
    );

const rules: readonly Rule[] = [
  addresses,
  latin,
  abbreviations,
  romanNumbers,
  money,
  dates,
  decades,
  times,
  measures,
  groups,
  signs,
  plainNumbers,
  dots,
];
