// A gateway of eight devices, from docs/gateway-protocol.md alone:  node gateway.mjs [host] [port] [gateway] [user] [secret]
import { connect } from 'node:net';

const [host = '127.0.0.1', port = '9600', gateway = 'node-1', user = '', secret = ''] = process.argv.slice(2);
const HEARTBEAT = 20, EVERY = Number(process.env.EVERY ?? 1000);      // seconds, milliseconds

const number = (size, value) => { const bytes = Buffer.alloc(size); bytes.writeUIntBE(value, 0, size); return bytes; };
const long = (value) => { const bytes = Buffer.alloc(8); bytes.writeBigUInt64BE(BigInt(value)); return bytes; };
const text = (words) => Buffer.concat([number(1, Buffer.byteLength(words)), Buffer.from(words)]);
const frame = (channels, ...data) => Buffer.concat([number(1, 0x68), number(6, Date.now()), number(1, channels),
  number(2, Buffer.concat(data).length), ...data]);
const control = (kind, ...data) => frame(0, number(1, kind), ...data);

const running = Array(8).fill(1);          // of plc-0 to plc-7: one reading each, of type 1, bool
const layout = Buffer.concat(running.flatMap((_, plc) => [text(`plc-${plc}`), number(1, 1), text('running'), number(1, 1)]));
const readings = () => frame(8, long(sequence), number(1, 1), number(2, layout.length), layout, Buffer.from(running));
const kept = new Map();                    // frames that are not acknowledged, oldest first
let sequence = Date.now() * 1000, wait = 1000, socket, welcome = false;
const say = (bytes) => { if (welcome) socket.write(bytes); };

const heard = {
  2: (data) => {                           // login answer
    if (data[1] !== 0) return console.error(`refused: ${data.subarray(6)}`);
    [welcome, wait] = [true, 1000];
    for (const old of kept.values()) say(old);
  },
  3: () => say(control(4)),                // heartbeat
  6: (data) => { for (const old of kept.keys()) if (old <= data.readBigUInt64BE(1)) kept.delete(old); },      // ack
  7: (data) => {                           // command
    const id = data.subarray(1, 5), end = 12 + data[11], device = `${data.subarray(12, end)}`, body = `${data.subarray(end)}`;
    console.log(`command ${id.readUInt32BE()} for ${device}: ${body}`);
    const [, plc] = device.match(/^plc-([0-7])$/) ?? [], [, on] = body.match(/^{"running": *(true|false)}$/) ?? [];
    const done = plc !== undefined && on !== undefined;
    if (done) running[plc] = on === 'true' ? 1 : 0;
    say(control(8, id, number(1, done ? 1 : 0), text(done ? '' : 'not understood'), number(1, 0)));
  },
};

function open() {
  let come = Buffer.alloc(0);
  socket = connect(port, host, () => socket.write(control(1, number(1, 1), number(1, 1), number(2, HEARTBEAT),
    text(gateway), text(user), number(2, Buffer.byteLength(secret)), Buffer.from(secret))));
  socket.on('data', (bytes) => {
    come = Buffer.concat([come, bytes]);
    for (let end; come.length >= 10 && come.length >= (end = 10 + come.readUInt16BE(8)); come = come.subarray(end))
      heard[come[10]]?.(come.subarray(10, end));
  });
  socket.on('error', (error) => console.error(error.message));
  socket.on('close', () => { welcome = false; setTimeout(open, wait * (0.5 + Math.random())); wait = Math.min(wait * 2, 60000); });
}

setInterval(() => {
  if (kept.size >= 10000) return;          // rather no new ones than none of the old ones
  sequence += 1;
  kept.set(sequence, readings());
  say(kept.get(sequence));
}, EVERY);
setInterval(() => say(control(3)), HEARTBEAT * 500);
open();
