// A gateway of eight devices, from docs/gateway-protocol.md alone:  node gateway.mjs [host] [port] [gateway] [user] [secret]
import { connect } from 'node:net';

const [host = '127.0.0.1', port = '9600', gateway = 'node-1', user = '', secret = ''] = process.argv.slice(2);
const HEARTBEAT = 20, EVERY = Number(process.env.EVERY ?? 1000), LIMIT = Number(process.env.FRAMES ?? Infinity);
const FLOAT = 10, BOOL = 1, LOGIN_ANSWER = 2, ACK = 6, COMMAND = 7, CLOSE = 9;

const number = (size, value) => { const bytes = Buffer.alloc(size); bytes.writeUIntBE(value, 0, size); return bytes; };
const long = (value) => { const bytes = Buffer.alloc(8); bytes.writeBigUInt64BE(BigInt(value)); return bytes; };
const text = (words) => { const bytes = Buffer.from(words); return Buffer.concat([number(1, bytes.length), bytes]); };
const frame = (channels, ...data) => {
  const body = Buffer.concat(data);
  return Buffer.concat([number(1, 0x68), number(6, Date.now()), number(1, channels), number(2, body.length), body]);
};
const control = (kind, ...data) => frame(0, number(1, kind), ...data);

const running = Array(8).fill(true);
const layout = Buffer.concat(running.map((_, device) => Buffer.concat(
  [text(`plc-${device}`), number(1, 2), text('temperature'), number(1, FLOAT), text('running'), number(1, BOOL)])));
const readings = (sequence) => frame(8, long(sequence), number(1, 1 /* wants an ack */), number(2, layout.length), layout,
  ...running.map((on) => { const value = Buffer.alloc(5); value.writeFloatBE(20 + Math.random()); value[4] = +on; return value; }));

let sequence = Date.now() * 1000;          // higher than in any run before
let posted = 0, wait = 1000, socket, welcome = false;
const kept = new Map();                    // what is not acknowledged, oldest first
const say = (bytes) => { if (welcome) socket.write(bytes); };

function command(data) {
  const id = data.subarray(1, 5), device = data.subarray(12, 12 + data[11]).toString(), body = data.subarray(12 + data[11]).toString();
  console.log(`command ${id.readUInt32BE()} for ${device}: ${body}`);
  const index = Number(device.replace('plc-', '')), until = data.readUIntBE(5, 6);
  let failed = until && until < Date.now() ? 'too late' : running[index] === undefined ? 'no such device' : '';
  try { if (!failed) running[index] = JSON.parse(body).running ?? running[index]; } catch { failed = 'no JSON'; }
  const values = failed ? [number(1, 0)] : [number(1, 1), text('running'), number(1, BOOL), number(1, +running[index])];
  say(control(8, id, number(1, failed ? 0 : 1), text(failed), ...values));
}

function heard(data) {
  if (data[0] === LOGIN_ANSWER && data[1] === 0) {
    welcome = true; wait = 1000;
    console.log(`welcome, ${kept.size} to send again`);
    for (const old of kept.values()) say(old);
  } else if (data[0] === LOGIN_ANSWER) console.error(`refused: ${data.subarray(6).toString()}`);
  else if (data[0] === ACK) { for (const old of kept.keys()) if (old <= Number(data.readBigUInt64BE(1))) kept.delete(old); }
  else if (data[0] === 3) say(control(4));
  else if (data[0] === COMMAND) command(data);
  else if (data[0] === CLOSE) console.log(`closed: ${data.subarray(2).toString()}`);
  if (posted >= LIMIT && kept.size === 0) { console.log(`all ${posted} frames are safe`); process.exit(0); }
}

function open() {
  let come = Buffer.alloc(0);
  socket = connect(Number(port), host, () => socket.write(control(1, number(1, 1), number(1, 1), number(2, HEARTBEAT),
    text(gateway), text(user), number(2, Buffer.byteLength(secret)), Buffer.from(secret))));
  socket.on('data', (bytes) => {
    come = Buffer.concat([come, bytes]);
    while (come.length >= 10 && come.length >= 10 + come.readUInt16BE(8)) {
      const end = 10 + come.readUInt16BE(8);
      if (come[0] !== 0x68) return socket.destroy();
      heard(come.subarray(10, end));
      come = come.subarray(end);
    }
  });
  socket.on('error', (error) => console.error(error.message));
  socket.on('close', () => { welcome = false; setTimeout(open, wait * (0.5 + Math.random())); wait = Math.min(wait * 2, 60000); });
}

setInterval(() => {
  if (posted >= LIMIT || kept.size >= 10000) return;      // rather no new ones than none of the old ones
  posted += 1; sequence += 1;
  kept.set(sequence, readings(sequence));
  say(kept.get(sequence));
}, EVERY);
setInterval(() => say(control(3)), HEARTBEAT * 500);
open();
