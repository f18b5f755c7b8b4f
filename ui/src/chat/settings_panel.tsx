import {useEffect, useRef} from 'preact/hooks';
import {apiKey, setApiKey} from '../server/api_key';
import {defaultSettings, efforts, requestFields, type Settings} from './settings';

interface Props {
  settings: Settings;
  change: (settings: Settings) => void;
  close: () => void;
}

const numbers = [
  {key: 'temperature', label: 'Temperature'},
  {key: 'topP', label: 'Top p'},
  {key: 'maxTokens', label: 'Max tokens'},
  {key: 'seed', label: 'Seed'},
] as const;

export function SettingsPanel({settings, change, close}: Props) {
  const {problems} = requestFields(settings);
  const first = useRef<HTMLTextAreaElement>(null);
  useEffect(() => first.current?.focus(), []);
  const set = (key: keyof Settings) => (event: {currentTarget: {value: string}}) =>
    change({...settings, [key]: event.currentTarget.value});
  // A number field tells nothing of text that is no number, so the fields are text.
  return (
    <aside
      class="settings"
      id="settings"
      aria-label="Settings"
      onKeyDown={(event) => {
        if (event.key === 'Escape') close();
      }}
    >
      <header>
        <h2>Settings</h2>
        <button type="button" class="quiet" onClick={close}>
          Close
        </button>
      </header>
      <label>
        <span>System prompt</span>
        <textarea ref={first} rows={4} value={settings.system} onInput={set('system')} />
      </label>
      <div class="pairs">
        {numbers.map(({key, label}) => (
          <Field key={key} name={key} label={label} problem={problems[key]}>
            <input
              inputMode="decimal"
              autoComplete="off"
              placeholder="default"
              value={settings[key]}
              aria-invalid={problems[key] !== undefined}
              aria-describedby={`${key}-problem`}
              onInput={set(key)}
            />
          </Field>
        ))}
      </div>
      <label>
        <span>Thinking effort</span>
        <select value={settings.effort} onChange={set('effort')}>
          <option value="">default</option>
          {efforts.map((effort) => (
            <option key={effort} value={effort}>
              {effort}
            </option>
          ))}
        </select>
      </label>
      <Field name="tools" label="Tools (JSON)" problem={problems.tools}>
        <textarea
          rows={6}
          class="mono"
          spellcheck={false}
          placeholder={'[{"name": "get_weather",\n  "parameters": {…}}]'}
          value={settings.tools}
          aria-invalid={problems.tools !== undefined}
          aria-describedby="tools-problem"
          onInput={set('tools')}
        />
      </Field>
      <label>
        <span>API key</span>
        <input
          type="password"
          autoComplete="off"
          placeholder="none"
          defaultValue={apiKey()}
          onInput={(event) => setApiKey(event.currentTarget.value)}
        />
      </label>
      <button type="button" onClick={() => change(defaultSettings)}>
        Reset to defaults
      </button>
    </aside>
  );
}

interface FieldProps {
  name: string;
  label: string;
  problem: string | undefined;
  children: preact.ComponentChildren;
}

function Field({name, label, problem, children}: FieldProps) {
  return (
    <label>
      <span>{label}</span>
      {children}
      <small class="problem" id={`${name}-problem`}>
        {problem && `Expected ${problem}; not sent.`}
      </small>
    </label>
  );
}
