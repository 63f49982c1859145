/**
 * Types of product-tour.js. Events of the stream are those of multimodal/events.py, in JSON. While a lost road is looked
 * for, the element has the attribute `reconnecting`, and stays playing or paused.
 */

export interface TourEvent {
  kind: string;
  v: number;
  sid: string;
  epoch: number;
  seq: number;
  pts_ms: number;
  tok: number;
  [field: string]: unknown;
}

export interface Arrived {
  vantage: 'arrived';
  /** performance.now() when the message came. */
  t_ms: number;
  seq: number;
  event: TourEvent;
}

export interface Painted {
  vantage: 'painted';
  /** The animation frame's own time. */
  t_ms: number;
  frame: number;
  /** The last event applied in the frame. */
  seq: number;
  /** false: the page was hidden, so that this proves nothing. */
  visible: boolean;
  reveals: { key: string; preview: boolean; decoded: boolean }[];
}

export interface TourStats {
  reveals: number;
  /** Cues that were not shown, without those that an interruption ended. */
  missed: number;
  /** Reveals that stand on a regular mark after words, in a visible page. */
  judged: number;
  /** Those of them that were painted in the frame of the last words before their mark. */
  sameFrame: number;
  tokenDriftMax: number;
  /** Signed, + = picture late. */
  skewMs: { last: number; max: number };
}

export interface RevealDetail {
  cue: number;
  key: string;
  product: string;
  anchor: number;
  mark: number;
  preview: boolean;
  tokenDrift: number;
  skewMs: number;
  sameFrame: boolean;
}

/** The words reached a product whose picture does not come; its name and price stand beside an empty place. */
export interface MissedDetail {
  cue: number;
  key: string;
  /** '' = not known. */
  product: string;
  anchor: number;
  reason: string;
}

/** What carries the tour from now on: said when it begins, and whenever it comes back. */
export interface RoadDetail {
  road: Road;
  /**
   * Why it is this one: '' = the first try. closed, silent: the road before was lost. ice_failed, ice_timeout: WebRTC
   * found no way through. websocket_refused, websocket_silent: nor did a WebSocket.
   */
  reason: string;
  /** Where WebRTC did not get through: how far it came, as `RTCPeerConnection.iceConnectionState`. */
  ice?: string;
  /** And by what kinds of addresses this browser could be reached: host, srflx, relay. */
  candidates?: string[];
}

export type Road = 'webrtc' | 'websocket' | 'sse';

export interface ErrorDetail {
  /**
   * not_found, denied, busy, server, network, ice, lost, taken (another connection has this seat now), version, stream,
   * or the stream's own code.
   */
  code: string;
  message: string;
  /** The HTTP status, where there was one. */
  status?: number;
  /**
   * What the server itself called it, where it said so: the code of its refusal, such as token_expired, no_such_tour or
   * too_many_sessions, or else the words of its goodbye. For programs and logs; `message` is for the viewer. It needs
   * product-tour-roads.js.
   */
  reason?: string;
}

export type TourState = 'idle' | 'connecting' | 'playing' | 'paused' | 'ended' | 'error';

/**
 * Every word that the player itself shows; change them before a tour starts. Those for what goes wrong come later, and
 * only where the page has not set them: reconnecting, taken, not_found, denied, busy, ice, version.
 */
export const labels: Record<string, string>;

export class ProductTour extends HTMLElement {
  readonly state: TourState;
  readonly log: (Arrived | Painted)[];
  readonly stats: TourStats;
  /** webrtc, websocket or sse; '' = nothing has come yet. */
  readonly road: Road | '';
  /** STUN and TURN servers; none unless set. Those that the server names are used beside them when a road was lost. */
  iceServers: RTCIceServer[];
  /** 'relay' = only over TURN servers: those of `iceServers`, or where there are none, those that the server names. */
  iceTransportPolicy: RTCIceTransportPolicy;
  /** Called before a new seat is asked for, and waited for. A join token opens one seat: set the attribute `token` anew. */
  beforeJoin?: () => unknown;
  play(): void;
  pause(): void;
  restart(): void;
  /**
   * Stops what is being told: nothing of it is shown any more. Does nothing unless the tour is playing or paused. The stage
   * is then empty and the tour stays open, `playing` and silent, for as long as this page stays: until `ask` brings an
   * answer, the shop's server says another turn or ends the tour, or `restart` begins a new one. Nothing goes on by itself;
   * to stop and go on later is `pause`. Where this viewer may not interrupt, the tour goes on from where it stands.
   */
  interrupt(): void;
  /**
   * Interrupts with a question of at most 2,000 characters; what follows is the answer, and with it the tour ends. Ends a
   * pause. Where nobody may ask, or the question is longer, the tour goes on from where it stands.
   */
  ask(text: string): void;
  /** Goes on with the tour's next chapter, if there is one. */
  skip(): void;
  /** Has the tour told again from a mark, as `sync` events in the log name them. */
  rewind(mark: number): void;
}

declare global {
  interface HTMLElementTagNameMap {
    'product-tour': ProductTour;
  }
  interface HTMLElementEventMap {
    'tour-start': CustomEvent<TourEvent>;
    'tour-reveal': CustomEvent<RevealDetail>;
    'tour-missed': CustomEvent<MissedDetail>;
    /** The stage is empty and a new turn begins. */
    'tour-interrupt': CustomEvent<{ epoch: number }>;
    'tour-road': CustomEvent<RoadDetail>;
    /** The stage was rebuilt as it stands: the viewer came late, or was away for longer than is kept. */
    'tour-snapshot': CustomEvent<TourEvent>;
    'tour-end': CustomEvent<{ reason: string; unused: string[]; stats: TourStats }>;
    'tour-error': CustomEvent<ErrorDetail>;
  }
}
